#include "analysis/diagnose/expected_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "analysis/diagnose/findings.hpp"

namespace plumbline {
namespace {

bool has_part(std::string_view label, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [label](std::string_view part) { return label.find(part) != label.npos; });
}

/// Category of a line of an action; communication is counted by the simulation.
std::optional<TimeShare> share_of_line(const CostLine& line) {
  const std::string_view label = line.label;
  if (line.phase == "step" || line.phase.find('+') != std::string::npos) return std::nullopt;
  if (has_part(label, {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "exchange",
                       "alongside", "tokens to", "ring"}))
    return std::nullopt;
  if (has_part(label, {"waits for"})) return TimeShare::host;
  if (has_part(label, {"attention"}) && line.flops.value > 0) return TimeShare::attention;
  if (line.flops.value > 0 || has_part(label, {"tiles", "experts in kernels"})) return TimeShare::product;
  return TimeShare::other;
}

}  // namespace

SharedTime expected_time(const Prediction& prediction) {
  SharedTime parts;
  for (const CostLine& line : prediction.lines) {
    if (const auto share = share_of_line(line)) parts[*share] += line.seconds.value;
  }
  const StepTime& time = prediction.time;
  SharedTime expected;
  const double lines = parts.sum();
  for (std::size_t i = 0; i < kTimeShares; ++i)
    expected.seconds[i] = lines > 0 ? time.compute.value * parts.seconds[i] / lines : 0;
  if (lines <= 0) expected[TimeShare::other] = time.compute.value;
  expected[TimeShare::tensor] += time.exposed_tensor.value;
  expected[TimeShare::bubble] += time.exposed_pipeline.value;
  expected[TimeShare::data] += time.exposed_data.value;
  expected[TimeShare::host] += time.exposed_offload.value;
  expected[TimeShare::optimizer] += time.optimizer.value;
  const double rest = time.step.value - expected.sum();
  // Time that no action has is the host's work at the end of a step.
  if (rest > 0) expected[TimeShare::host] += rest;
  if (rest < 0) expected[TimeShare::bubble] += rest;
  return expected;
}

GroupSizes group_sizes_of(const RunConfig& config) {
  return {config.parallel.tensor, config.parallel.context, config.parallel.expert, config.parallel.pipeline,
          config.parallel.data()};
}

std::vector<StepFinding> differences_of(const Diagnosis& measured, const SharedTime& expected) {
  std::vector<StepFinding> findings;
  for (std::size_t i = 0; i < kTimeShares; ++i) {
    const auto share = static_cast<TimeShare>(i);
    if (share == TimeShare::pipeline) continue;
    double more = measured.time[share] - expected[share];
    if (share == TimeShare::bubble) more += measured.time[TimeShare::pipeline];
    if (more < kLeastFinding * measured.step_s) continue;
    std::string most;
    for (const RankBreakdown& rank : measured.ranks) {
      for (const TracedOperator& each : rank.operators) {
        if (each.share != share || !most.empty()) continue;
        most = fmt::format(", most of it in {}{}{}", each.name, each.shapes.empty() ? "" : " ", each.shapes);
      }
    }
    findings.push_back({share, -1, more, fmt::format("{} above the prediction{}", name_of(share).title, most),
                        std::string(advice_for(share))});
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const StepFinding& a, const StepFinding& b) { return a.seconds > b.seconds; });
  return findings;
}

}  // namespace plumbline
