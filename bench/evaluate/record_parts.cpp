#include "bench/evaluate/record_parts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/stragglers/slow_ranks.hpp"
#include "core/base/statistics.hpp"
#include "core/run/processors.hpp"

namespace plumbline {
namespace {

/// The first action of the step in which the rank held as much as ever; empty when it was outside of any.
std::string action_of_peak(const training::TrainingResult& result, const Schedule& schedule,
                           int pipeline_rank, const training::MeasuredMemory& memory) {
  const auto rank = static_cast<std::size_t>(pipeline_rank);
  for (std::size_t i = 0; rank < result.samples.size() && i < result.samples[rank].size(); ++i) {
    if (result.samples[rank][i].peak.total() == memory.at_peak.total())
      return to_string(schedule.actions[rank][i]);
  }
  return "";
}

/// Compute time of every rank relative to those of its stage.
std::vector<ComputingReport> computing_report(const training::TrainingResult& result, const Layout& layout) {
  std::vector<ComputingReport> rows;
  if (result.computing.empty() || layout.world() > kMostRankRows) return rows;
  std::vector<ComputingRank> ranks;
  ranks.reserve(result.computing.size());
  for (int rank = 0; rank < layout.world(); ++rank) {
    ranks.push_back(
        {rank, layout.coordinates(rank).pipeline, &result.computing[static_cast<std::size_t>(rank)]});
  }
  rows.reserve(ranks.size());
  for (const RankPace& pace : rank_paces(ranks, result.step_times.size())) {
    const std::vector<double>& seconds = result.computing[static_cast<std::size_t>(pace.rank)];
    const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    rows.push_back(
        {pace.rank, {all / static_cast<double>(result.step_times.size())}, pace.factor, pace.error});
  }
  return rows;
}

/// An emulated run computes no loss, and without a time factor its times mean nothing.
void forget_what_is_not_measured(const RunConfig& config, MeasurementReport& report) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  if (config.machine.backend != Backend::emulated) return;
  report.loss = kUnknown;
  report.losses.clear();
  report.module_losses.clear();
  if (config.machine.emulated_clock == EmulatedTime::virtual_time) {
    // Other work of the host does not reach the ranks' clock.
    for (StepReport& step : report.steps) step = {step.time};
    report.disturbance = {};
  }
  if (config.machine.emulated_time_factor > 0) return;
  for (const auto& figure : kTimeFigures) figure.set(report.time, kUnknown);
  for (const auto& figure : kThroughputFigures) {
    if (figure.timed) figure.set(report.throughput, kUnknown);
  }
  report.time.vocabulary_collectives.reset();
  report.lanes.reset();
  report.step_min = report.step_max = {kUnknown};
  report.steps.clear();
  report.disturbance = {};
}

}  // namespace

MeasurementReport report_of(const training::TrainingResult& result, const RunConfig& config,
                            const Schedule& schedule, const std::vector<Traffic>& traffic,
                            const HardwareProfile& hardware) {
  MeasurementReport report;
  report.traffic = largest(traffic);
  const Layout layout = config.layout();
  std::vector<RankMemoryReport> ranks;
  for (int rank = 0; rank < layout.world(); ++rank) {
    const training::MeasuredMemory& memory = result.memory[static_cast<std::size_t>(rank)];
    const Coordinates at = layout.coordinates(rank);
    RankMemoryReport row{rank, at.pipeline, memory.at_peak, "", {}, memory.host};
    if (at.tensor == 0 && at.data == 0) row.at = action_of_peak(result, schedule, at.pipeline, memory);
    for (const training::PeakHolder& holder : memory.largest) {
      if (holder.bytes.value > 0)
        row.holders.push_back({holder.name, holder.category, holder.bytes, holder.tensors});
    }
    ranks.push_back(std::move(row));
    report.device_reserved = std::max(report.device_reserved, memory.reserved);
  }
  report.memory = MemoryReport::of(std::move(ranks));

  const Bubble bubble = bubble_of(result.trace);
  const Seconds window = result.trace.pipeline_end();
  for (const Seconds wait : result.vocabulary_waits) report.time.exposed_vocabulary += wait;
  // They are within actions, but count as waiting for other ranks.
  const Seconds busy = window * (1 - bubble.fraction) - report.time.exposed_vocabulary;
  report.time.step = lower_median(result.step_times);
  report.time.bubble_ratio = bubble.ratio;
  report.time.bubble_fraction = bubble.fraction;
  if (report.time.exposed_vocabulary.value > 0) {
    report.time.bubble_fraction = 1 - busy / window;
    report.time.bubble_ratio = window / busy - 1;
  }
  if (!result.trace.collectives.empty())
    report.time.vocabulary_collectives = vocabulary_overlap(result.trace);
  report.time.exposed_tensor = result.tensor_communication;
  report.time.compute = busy - result.tensor_communication - result.data_communication - result.host_waits;
  report.time.exposed_offload = result.host_waits;
  report.time.exposed_pipeline = window - busy;
  report.time.exposed_data =
      result.data_communication +
      mean_in(result.trace, window, {ActionType::reduce_gradients, ActionType::reduce_embedding});
  report.time.optimizer = mean_in(result.trace, window, {ActionType::optimizer});

  report.throughput = throughput_of(config, hardware, report.time.step, schedule.stages_per_route());
  report.samples = static_cast<int>(result.step_times.size());
  report.step_min = *std::min_element(result.step_times.begin(), result.step_times.end());
  report.step_max = *std::max_element(result.step_times.begin(), result.step_times.end());
  for (std::size_t i = 0; i < result.step_times.size(); ++i) {
    const StepLoad& load = result.step_loads[i];
    report.steps.push_back(
        {result.step_times[i], load.others, load.stolen, load.waited, load.involuntary, load.frequency, {}});
    report.steps.back().lost = result.lost[i];
  }
  report.disturbance = disturbance_of(report.steps, machine_processors());
  clip_shares(report.steps);
  report.computing = computing_report(result, layout);
  report.lanes = some_of(result.lane_sums);
  if (result.attention) report.attention = {result.attention->mean, result.attention->slowest};
  for (const training::LayerLoad& layer : result.expert_load)
    report.expert_load.push_back({layer.layer, layer.tokens, layer.dropped});
  report.losses = result.losses;
  report.loss = result.losses.back();
  report.module_losses = result.module_losses;
  forget_what_is_not_measured(config, report);
  return report;
}

CheckpointReport report_of(const training::CheckpointCosts& costs,
                           const training::CheckpointOptions& options) {
  CheckpointReport report;
  report.interval = options.interval;
  report.async = options.async;
  report.written = costs.written;
  report.failed = costs.failed;
  report.bytes = costs.bytes;
  report.largest_buffer = costs.largest_buffer;
  const auto count = static_cast<double>(std::max<std::size_t>(costs.stalls.size(), 1));
  for (const Seconds stall : costs.stalls) {
    report.stall = {report.stall.value + stall.value / count};
    report.stall_max = {std::max(report.stall_max.value, stall.value)};
  }
  for (const Seconds durable : costs.durable) report.durable = {report.durable.value + durable.value / count};
  report.resumed_step = costs.resumed_step;
  report.restore = costs.restore;
  return report;
}

}  // namespace plumbline
