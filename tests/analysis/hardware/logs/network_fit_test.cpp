// Constants of networks that sweeps determine.
#include "analysis/hardware/logs/network_fit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "analysis/hardware/profiles/accelerator_file.hpp"
#include "analysis/time/operator_time.hpp"
#include "core/base/error.hpp"
#include "tests/analysis/hardware/logs/public_logs.hpp"

namespace plumbline::network_fit_test {
namespace {

/// A sweep that a network would give.
LogSweep sweep_on(const Network& network, LogOperation operation, int ranks, int nodes) {
  LogSweep sweep{.tool = "nccl-tests", .operation = operation};
  sweep.ranks = ranks;
  sweep.nodes = nodes;
  for (double bytes = 8; bytes <= 0x1p33; bytes *= 4)
    sweep.points.push_back({bytes, model_seconds(network, sweep, bytes)});
  return sweep;
}

const Network& network_of(const char* hardware) {
  return find_hardware_preset(hardware)->accelerator()->constants.network;
}

TEST(NetworkFit, FindsTheConstantsThatMadeTheSweeps) {
  const Network& preset = network_of("h100-sxm-80gb");
  Network truth = preset;
  truth.node_bandwidth = 300e9;
  truth.exchange_bandwidth = 250e9;
  truth.message_bandwidth = 60e9;
  truth.node_base_s *= 1.7;
  truth.node_step_s *= 1.7;
  truth.nic_bandwidth = 12e9;
  truth.nic_base_s *= 2.5;
  truth.nic_step_s *= 2.5;
  truth.switch_reduction = 1.3;
  std::vector<LogSweep> sweeps;
  for (const auto& [operation, ranks, nodes] :
       {std::tuple(LogOperation::all_reduce, 8, 1), std::tuple(LogOperation::all_gather, 8, 1),
        std::tuple(LogOperation::all_to_all, 8, 1), std::tuple(LogOperation::ring, 8, 1),
        std::tuple(LogOperation::all_reduce, 32, 4), std::tuple(LogOperation::reduce_scatter, 16, 2)})
    sweeps.push_back(sweep_on(truth, operation, ranks, nodes));
  const NetworkFit fit = fit_network(preset, sweeps);
  const auto expect = [&](const char* name, double Network::*member) {
    EXPECT_NEAR(fit.network.*member / (truth.*member), 1, 0.02) << name;
    EXPECT_TRUE(std::any_of(fit.constants.begin(), fit.constants.end(), [&](const FittedConstant& each) {
      return each.name == name;
    })) << name;
  };
  expect("node_bandwidth", &Network::node_bandwidth);
  expect("exchange_bandwidth", &Network::exchange_bandwidth);
  expect("message_bandwidth", &Network::message_bandwidth);
  expect("node_base_s", &Network::node_base_s);
  expect("node_step_s", &Network::node_step_s);
  expect("nic_bandwidth", &Network::nic_bandwidth);
  expect("nic_base_s", &Network::nic_base_s);
  expect("nic_step_s", &Network::nic_step_s);
  expect("switch_reduction", &Network::switch_reduction);
  for (const FittedSweep& each : fit.sweeps) {
    EXPECT_GT(each.error_before.value(), 0.05);
    EXPECT_LT(each.error_after.value(), 0.02);
  }
}

TEST(NetworkFit, GivesPublicLogsBackTheirRates) {
  struct Case {
    const char* log;
    const char* hardware;
    int ranks, nodes;
    double bus_gb;  // of the largest sizes, printed
  };
  const Case cases[] = {{public_logs::kGb200, "gb200-nvl72", 72, 18, 800},
                        {public_logs::kV100, "v100-sxm-32gb", 64, 8, 4.3},
                        {public_logs::kH100Pair, "h100-pcie-80gb", 2, 1, 115.6},
                        {public_logs::kMi300x, "mi300x", 8, 1, 161},
                        {public_logs::kOsuBandwidth, "a100-sxm-40gb", 2, 1, 93.1}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.hardware);
    const HardwareProfile* preset = find_hardware_preset(each.hardware);
    if (preset == nullptr) continue;
    std::vector<LogSweep> sweeps = read_benchmark_log(each.log, "log");
    for (LogSweep& sweep : sweeps) complete(sweep, LogOperation::unknown, each.ranks, each.nodes, "log");
    sweeps.resize(1);
    const NetworkFit fit = fit_network(preset->accelerator()->constants.network, sweeps);
    ASSERT_EQ(fit.sweeps.size(), 1U);
    EXPECT_NEAR(fit.sweeps.front().bus_bandwidth.value() / 1e9 / each.bus_gb, 1, 0.06);
    EXPECT_LT(fit.sweeps.front().error_after.value(), 0.12);
  }
}

TEST(NetworkFit, WritesAFileThatPredictionsUse) {
  const HardwareProfile& preset = *find_hardware_preset("h100-sxm-80gb");
  Network slow = preset.accelerator()->constants.network;
  slow.node_bandwidth /= 3;
  slow.nic_bandwidth /= 5;
  const NetworkFit fit = fit_network(
      preset.accelerator()->constants.network,
      {sweep_on(slow, LogOperation::all_gather, 8, 1), sweep_on(slow, LogOperation::all_reduce, 16, 2)});
  const HardwareProfile mine =
      parse_accelerator(accelerator_file_of(fit, "mine", "h100-sxm-80gb"), "mine.json");
  EXPECT_NEAR(mine.accelerator()->constants.network.nic_bandwidth / slow.nic_bandwidth, 1, 0.02);
  // Collectives take the new times, where tables of the machine had others; operators keep theirs.
  EXPECT_NE(mine.accelerator()->constants.device.measured, nullptr);
  const CollectiveCall call{
      .kind = CallKind::all_gather, .group = Group::tensor, .ranks = 8, .elements = std::int64_t{1} << 28};
  const Layout layout{8, 1, 1};
  const double before = collective_time({.work = call, .type = DType::bf16}, preset, layout).value;
  const double after = collective_time({.work = call, .type = DType::bf16}, mine, layout).value;
  EXPECT_NEAR(after / before, 3, 0.5);
}

TEST(NetworkFit, PutsCurvesIntoACalibratedProfile) {
  HardwareProfile profile;
  profile.kind = Calibrated{2};
  std::vector<LogSweep> sweeps = {{.tool = "osu", .operation = LogOperation::all_reduce}};
  sweeps[0].ranks = 2;
  sweeps[0].nodes = 2;
  sweeps[0].points = {{1024, 1e-3}, {2048, 2e-3}};
  const HardwareProfile slow = with_measured_messages(profile, sweeps);
  const CollectiveCall call{.kind = CallKind::all_reduce, .group = Group::data, .ranks = 2, .elements = 512};
  EXPECT_NEAR(collective_time({.work = call, .type = DType::fp32}, slow, {1, 1, 2}, true).value, 2e-3, 1e-9);
  sweeps[0].operation = LogOperation::broadcast;
  EXPECT_THROW(with_measured_messages(profile, sweeps), InputError);
}

}  // namespace
}  // namespace plumbline::network_fit_test
