#include "analysis/silicon/measured_operators.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/operators/operator_lookup.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/operator_time.hpp"

namespace plumbline::silicon::measured_operators_test {
namespace {

const MeasuredOperators& gb300() {
  return *built_in_profiles().machine("gb300-nvl72").device.measured;
}
double seconds(double m, double n, double k) {
  return gb300().product(ProductType::bf16, m, n, k)->seconds;
}

TEST(MeasuredOperators, GiveTheTablesTimesAndTheirContinuation) {
  const double border = seconds(32768, 16384, 8192);
  EXPECT_GT(2 * 32768.0 * 16384 * 8192 / border, 1.5e15) << "of a peak of 2.5 PFLOP/s";
  EXPECT_LT(2 * 32768.0 * 16384 * 8192 / border, 2.5e15);
  EXPECT_NEAR(seconds(4 * 65536, 65536, 8192) / seconds(32768, 65536, 8192), 8, 0.01);
  EXPECT_DOUBLE_EQ(seconds(65536, 4096, 1024), seconds(4096, 65536, 1024));
}

TEST(MeasuredOperators, RunAtSustainedClocksAndWithoutQuantizing) {
  OperatorLookup tables("gb300-nvl72", built_in_profiles().machine("gb300-nvl72"));
  const auto of_table = [&](const char* type) { return tables.product({type, 8192, 8192, 8192}).seconds; };
  const auto of_step = [](ProductType type) { return gb300().product(type, 8192, 8192, 8192)->seconds; };
  EXPECT_GT(of_step(ProductType::bf16), 1.02 * of_table("bf16"));
  EXPECT_LT(of_step(ProductType::bf16), 1.2 * of_table("bf16"));
  for (const auto& [type, name] : {std::pair{ProductType::fp8, "fp8"}, {ProductType::nvfp4, "nvfp4"}}) {
    EXPECT_LT(of_step(type), of_table(name)) << name;
    EXPECT_GT(of_step(type), 0.5 * of_table(name)) << name;
  }
  GemmCall gradient{
      .pass = GemmPass::weight_gradient, .tokens = 8192, .out = 8192, .in = 8192, .result_bytes = 2};
  const auto priced = [&] {
    return time_of({.work = gradient}, *find_hardware_preset("gb300-nvl72"), {}).value;
  };
  EXPECT_DOUBLE_EQ(priced(), of_step(ProductType::bf16));
  gradient.result_bytes = 8;  // read and written in fp32
  EXPECT_DOUBLE_EQ(priced(), of_step(ProductType::bf16) / 0.93);
}

TEST(MeasuredOperators, AttentionGainsTheSameTimeInItsBackward) {
  const HardwareProfile& h100 = *find_hardware_preset("h100-sxm-80gb");
  const MeasuredOperators& tables = *h100.accelerator()->constants.device.measured;
  EXPECT_FALSE(tables.product(ProductType::bf16, 4096, 4096, 4096))
      << "its shares stand for more than products";
  const auto small = tables.attention(4, 4, 512, 64, 0);
  EXPECT_DOUBLE_EQ(small->seconds, 17.04e-6);
  EXPECT_EQ(small->basis, Basis::measured);
  EXPECT_FALSE(tables.attention(4, 4, 512, 80, 0)) << "no such heads in the table";

  HardwareProfile plain = h100;
  plain.accelerator()->constants.device.measured = nullptr;
  AttentionCall call{.cudnn = true, .queries = 8192, .head_dim = 128, .group = 4, .heads = 64};
  const auto gain = [&] {
    return (time_of({.work = call}, plain, {}) - time_of({.work = call}, h100, {})).value;
  };
  const double forward = gain();
  EXPECT_NE(forward, 0);
  EXPECT_TRUE(is_measured({.work = call}, h100));
  EXPECT_FALSE(is_measured({.work = call}, plain));
  call.backward = true;
  EXPECT_NEAR(gain(), forward, 1e-12);
  EXPECT_FALSE(is_measured({.work = call}, h100));
}

TEST(MeasuredOperators, AttentionBackwardOnGb300IsCudnns) {
  struct Case {
    std::int64_t heads, head, queries, window;
    double seconds;  // 0: not in the table
  };
  const HardwareProfile& machine = *find_hardware_preset("gb300-nvl72");
  for (const Case& c :
       {Case{128, 128, 8192, 0, 3832e-6}, Case{256, 160, 2048, 0, 977e-6}, Case{256, 64, 4096, 128, 442e-6},
        Case{256, 64, 4096, 0, 0}, Case{128, 96, 8192, 0, 0}}) {
    const AttentionCall call{.backward = true,
                             .cudnn = true,
                             .queries = c.queries,
                             .head_dim = c.head,
                             .group = 1,
                             .heads = c.heads,
                             .window = c.window};
    EXPECT_EQ(is_measured({.work = call}, machine), c.seconds > 0) << c.head;
    if (c.seconds == 0) continue;
    EXPECT_NEAR(time_of({.work = call}, machine, {}).value, c.seconds, 1e-9) << c.head;
  }
  EXPECT_NEAR(gb300().attention_backward(64, 8192, 128, 0)->seconds, 1916e-6, 5e-6) << "half of the heads";
  EXPECT_FALSE(
      built_in_profiles().machine("h100-sxm-80gb").device.measured->attention_backward(64, 8192, 128, 0));
}

TEST(MeasuredOperators, ProductsInMxfp8TakeLonger) {
  for (const auto& [name, ratio] : {std::pair{"gb300-nvl72", 1.05}, {"gb200-nvl72", 1.05}, {"mi355x", 1.0}}) {
    const HardwareProfile& machine = *find_hardware_preset(name);
    GemmCall call{.tokens = 32768, .out = 16384, .in = 16384, .fp8 = true};
    const double plain = time_of({.work = call}, machine, {}).value;
    call.block_scaled = true;
    EXPECT_NEAR(time_of({.work = call}, machine, {}).value / plain, ratio, 0.005) << name;
    call.grouped = true;
    const double grouped = time_of({.work = call}, machine, {}).value;
    call.block_scaled = false;
    EXPECT_EQ(time_of({.work = call}, machine, {}).value, grouped) << name << ", of experts";
  }
}

TEST(MeasuredOperators, CollectivesWithinAHostAreNccls) {
  struct Case {
    const char* machine;
    int ranks, stride;
    bool measured;
  };
  const auto& machines = built_in_profiles().machines;
  for (const Case& c : {Case{"h100-sxm-80gb", 8, 1, true}, Case{"h200-sxm-141gb", 2, 4, true},
                        Case{"gb300-nvl72", 4, 1, true}, Case{"gb300-nvl72", 8, 1, false},
                        Case{"h100-sxm-80gb", 16, 1, false}, Case{"h100-sxm-80gb", 4, 4, false},
                        Case{"b200-sxm-180gb", 8, 1, false}}) {
    const Machine& machine = machines.at(c.machine);
    OperatorLookup tables(c.machine, machine);
    for (const auto& [kind, name] : {std::pair{CallKind::all_reduce, "all_reduce"},
                                     {CallKind::all_gather, "all_gather"},
                                     {CallKind::reduce_scatter, "reduce_scatter"},
                                     {CallKind::all_to_all, "alltoall"}}) {
      const CollectiveCall of{.kind = kind, .ranks = c.ranks, .elements = 40'000'000, .stride = c.stride};
      const OperatorCall call{.work = of};
      const double seconds = accelerator_collective_time(call, machine, {}).value;
      const double table = tables.collective({name, static_cast<double>(c.ranks), 80e6}).seconds;
      const double constants = accelerator_collective_time(call, machine.network, {}).value;
      EXPECT_DOUBLE_EQ(seconds, c.measured ? table : constants) << c.machine << ' ' << c.ranks << name;
      EXPECT_NE(table, constants) << name;
    }
  }
}

TEST(MeasuredOperators, AreReadOnceByManyThreads) {
  std::vector<double> found(8);
  {
    std::vector<std::jthread> threads;
    for (double& each : found) threads.emplace_back([&] { each = seconds(4096, 8192, 4096); });
  }
  for (const double each : found) EXPECT_EQ(each, found.front());
}

}  // namespace
}  // namespace plumbline::silicon::measured_operators_test
