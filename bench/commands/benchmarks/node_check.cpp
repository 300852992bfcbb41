#include "bench/commands/benchmarks/node_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/stragglers/step_noise.hpp"
#include "bench/commands/benchmarks/bench_launch.hpp"
#include "bench/measure/machine/cuda_facts.hpp"
#include "bench/measure/machine/named_hardware.hpp"
#include "bench/measure/nodes/node_verdict.hpp"
#include "bench/plan/plan.hpp"
#include "bench/processes/hosts/chosen_hosts.hpp"
#include "bench/processes/hosts/placement.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {
namespace {

constexpr int kSimulatedSteps = 50;

/// Step of a configuration with and without the slowest rank.
struct StepCost {
  double quiet_s = 0;
  double slowed_s = 0;
  double share() const { return quiet_s > 0 ? slowed_s / quiet_s - 1 : 0; }
};

RunConfig job_of(const NodeCheck& check) {
  RunConfig config = load_run_config(check.config, {});
  if (!check.hardware.empty()) config.machine.hardware = check.hardware;
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  if (config.machine.hardware.empty()) {
    throw InputError("hardware: found nothing, expected the accelerator of the step; add --hardware");
  }
  name_hardware(config.machine.hardware);
  if (const auto reason = why_unpredictable(config)) throw InputError(*reason);
  return config;
}

/// Step by the model of `plumbline stragglers`, with one GPU as slow as the slowest rank.
StepCost cost_of(const RunConfig& config, double factor) {
  const HardwareProfile hardware = load_hardware(config.machine.hardware);
  if (const auto reason = why_unpredictable(config, hardware)) throw InputError(*reason);
  const RepeatedSchedule step = step_for(config);
  const Prediction prediction = predict(config, step, hardware);
  if (prediction.costs.processors > 0) {
    throw InputError("--hardware: found ranks that share processors, expected an accelerator; change it");
  }
  const ParallelConfig& parallel = config.parallel;
  NoiseJob job{&step, prediction.costs, parallel.tensor * parallel.context, parallel.data()};
  NoiseModel noise;
  noise.slow_share = 1.0 / static_cast<double>(parallel.world_size);
  noise.slow_factor = std::max(1.0, factor);
  const NoisySteps steps = simulate_noise(job, noise, {kSimulatedSteps, config.measure.seed});
  return {steps.quiet.value, steps.mean().value};
}

double gigabytes(double bytes, double seconds) {
  return seconds > 0 ? bytes / seconds * 1e-9 : 0;
}

std::string line_of(const NodeReport& report) {
  double latency = 0, bandwidth = 0;
  for (const PairReport& pair : report.pairs) {
    latency = latency == 0 ? pair.latency_s : std::min(latency, pair.latency_s);
    bandwidth = std::max(bandwidth, pair.bandwidth);
  }
  std::string text = fmt::format(
      "{:<4} {:<20} {:>5} {:>10.1f} {:>7.2f} {:>9.2f} {:>7.2f} {:>9.2f} {:>9.2f} {:>5}",
      report.passed() ? "PASS" : "FAIL", printable(report.host, 20), report.rank,
      gigabytes(report.product_flops, report.product_s), report.product_factor,
      gigabytes(report.copy_bytes, report.copy_s), report.copy_factor, latency * 1e6, bandwidth * 1e-9,
      report.health.celsius > 0 ? fmt::format("{:.0f}", report.health.celsius) : "-");
  for (const std::string& reason : report.reasons) text += "  " + reason;
  for (const std::string& note : report.notes) text += "  (" + note + ")";
  return text + "\n";
}

std::string table_of(const std::vector<NodeReport>& reports, const std::optional<StepCost>& cost) {
  std::string text =
      fmt::format("{:<4} {:<20} {:>5} {:>10} {:>7} {:>9} {:>7} {:>9} {:>9} {:>5}\n", "", "host", "rank",
                  "GFLOP/s", "time x", "copy GB/s", "time x", "ping us", "pair GB/s", "C");
  std::size_t failed = 0;
  for (const NodeReport& report : reports) {
    text += line_of(report);
    failed += report.passed() ? 0 : 1;
  }
  const NodeReport& slowest = slowest_rank(reports);
  text += fmt::format("{} of {} ranks passed; slowest: rank {} on {}, {:.2f} x the median\n",
                      reports.size() - failed, reports.size(), slowest.rank, printable(slowest.host),
                      slowest.product_factor);
  if (cost) {
    text += fmt::format("predicted step: {:.4f} s, with the slowest rank {:.4f} s ({:+.1f} %)\n",
                        cost->quiet_s, cost->slowed_s, 100 * cost->share());
  }
  return text;
}

std::string json_of(const std::vector<NodeReport>& reports, const std::optional<StepCost>& cost) {
  nlohmann::ordered_json json;
  json["ranks"] = nlohmann::ordered_json::array();
  json["failed"] = nlohmann::ordered_json::array();
  for (const NodeReport& report : reports) {
    json["ranks"].push_back(to_json(report));
    if (!report.passed()) json["failed"].push_back(report.rank);
  }
  const NodeReport& slowest = slowest_rank(reports);
  json["slowest"] = {{"rank", slowest.rank}, {"host", slowest.host}, {"factor", slowest.product_factor}};
  json["step"] = nullptr;
  if (cost) json["step"] = {{"quiet_s", cost->quiet_s}, {"slowed_s", cost->slowed_s}};
  return output_json(json, 2) + "\n";
}

void show(const NodeCheck& check, const std::optional<RunConfig>& job,
          const std::vector<NodeReport>& reports) {
  std::optional<StepCost> cost;
  if (job) cost = cost_of(*job, slowest_rank(reports).product_factor);
  write_whole_file(check.passing, passing_hostfile(reports));
  fmt::print("{}", check.json ? json_of(reports, cost) : table_of(reports, cost));
}

std::vector<std::string> node_words(const NodeCheck& check) {
  std::vector<std::string> words = {"doctor",
                                    "--nodes",
                                    "--rows",
                                    "--time-limit",
                                    fmt::format("{}", check.request.limit_s),
                                    "--backend",
                                    check.request.backend == Backend::cuda ? "cuda" : "cpu"};
  if (check.request.slow_rank >= 0) {
    for (const auto& word : {std::string("--slow-rank"), std::to_string(check.request.slow_rank),
                             std::string("--slow-factor"), fmt::format("{}", check.request.slow_factor)})
      words.push_back(word);
  }
  return words;
}

}  // namespace

int check_nodes(const NodeCheck& check, bool quiet) {
  std::optional<RunConfig> job;
  if (!check.config.empty()) job = job_of(check);
  if (!check.rows) check_can_write(check.passing, "--passing");
  const Placement placement = find_placement(process_variables());
  require_mpi(placement);
  if (placement.one_of_several()) {
    return run_as_checked_node(check.request, [&](const std::vector<NodeReport>& reports) {
      if (!check.rows) return show(check, job, reports);
      for (const NodeReport& report : reports) fmt::print("{}\n", output_json(to_json(report), -1));
      std::fflush(stdout);
    });
  }
  if (check.request.backend == Backend::cuda) {
    if (const auto reason = why_no_cuda(cuda_facts())) throw InputError(*reason);
  }
  LauncherOptions launcher;
  launcher.hostfile = check.hostfile;
  const std::vector<Host> hosts = chosen_hosts(launcher, process_variables());
  constexpr int kRanksHere = 2;
  const int ranks = check.ranks > 0 ? check.ranks : hosts.empty() ? kRanksHere : slots_of(hosts);
  std::vector<NodeReport> reports;
  const int code = launch_measured(
      {node_words(check), ranks, check.request.backend, hosts},
      [&](const std::string& text) { reports.push_back(parse_node_report(text, "rank 0")); }, quiet);
  if (reports.empty()) throw Error("doctor --nodes: no rank reported");
  show(check, job, reports);
  return code;
}

}  // namespace plumbline
