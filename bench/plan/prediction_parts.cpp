#include "bench/plan/prediction_parts.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/hardware/profile_at_speed.hpp"
#include "analysis/predict/dynamic_context.hpp"
#include "analysis/published/comparable_figures.hpp"
#include "analysis/step/software_of.hpp"
#include "analysis/time/lane_sums.hpp"
#include "analysis/work/flops.hpp"
#include "analysis/work/routing/given_routing.hpp"
#include "analysis/work/routing/routed_traffic.hpp"
#include "analysis/work/traffic.hpp"

namespace plumbline {
namespace {

/// The row of each of the ranks that are alike, or one for all where the world is large.
template <class Row>
void add_rows(Row row, int world, std::vector<Row>& rows) {
  const int alike = world > kMostRankRows ? 1 : std::exchange(row.ranks_alike, 1);
  for (int i = 0; i < alike; ++i, ++row.rank) rows.push_back(row);
}

/// Predicted expert load of an MoE model, where experts drop tokens or their load is not even.
std::vector<ExpertLoadReport> predicted_load(const RunConfig& config) {
  std::map<std::int64_t, ExpertLoadReport> layers;
  const std::int64_t capacity = config.expert_capacity();
  if (!traits_of(software_of(config)).own_lists) return {};
  if (capacity == 0 && config.mixture.routing == MixtureConfig().routing) return {};
  for (const RoutedTokens& line : given_routing(config)) {
    ExpertLoadReport& layer = layers[line.layer];
    layer.layer = line.layer;
    layer.tokens.resize(line.tokens.size());
    layer.dropped.resize(line.tokens.size());
    for (std::size_t i = 0; i < line.tokens.size(); ++i) {
      layer.tokens[i] += line.tokens[i];
      if (capacity > 0) layer.dropped[i] += std::max<std::int64_t>(0, line.tokens[i] - capacity);
    }
  }
  std::vector<ExpertLoadReport> reports;
  reports.reserve(layers.size());
  for (auto& [number, layer] : layers) reports.push_back(std::move(layer));
  return reports;
}

}  // namespace

Traffic largest(const std::vector<Traffic>& ranks) {
  Traffic most;
  for (const Traffic& rank : ranks) most = larger(most, rank);
  return most;
}

std::optional<LaneSums> some_of(const LaneSums& sums) {
  const bool any =
      std::any_of(sums.begin(), sums.end(), [](const LaneTimes& lane) { return lane.time.value > 0; });
  return any ? std::optional(sums) : std::nullopt;
}

void set_verdict(const MemoryVerdict& verdict, PredictionReport& report) {
  report.verdict = name_of(verdict.word);
  report.chance = verdict.chance;
}

DeviceMemoryReport report_of(const DeviceMemoryPrediction& device) {
  DeviceMemoryReport report;
  report.source = device.measured ? "tensors predicted, the rest measured by calibrate"
                                  : "tensors predicted, the rest estimated (analysis/hardware)";
  report.device = device.device;
  const int world = static_cast<int>(device.ranks.size()) * device.ranks_alike;
  int first = 0;
  for (const RankDeviceMemory& rank : device.ranks) {
    DeviceMemoryRow row;
    row.rank = std::exchange(first, first + device.ranks_alike);
    row.ranks_alike = device.ranks_alike;
    row.allocated = rank.tensors;
    row.context = rank.context;
    row.libraries = rank.libraries;
    row.nccl = rank.nccl;
    row.other = rank.kernels;
    row.margin = rank.margin;
    row.total = row.sum();
    add_rows(row, world, report.ranks);
  }
  return report;
}

PredictionReport report_of(const Prediction& prediction) {
  std::vector<RankMemoryReport> ranks;
  const int alike = prediction.memory.ranks_alike;
  const auto pipeline = static_cast<int>(prediction.memory.ranks.size());
  for (const RankMemory& rank : prediction.memory.ranks)
    add_rows(RankMemoryReport{rank.rank, rank.pipeline_rank, rank.peak, rank.at, {}, rank.host, alike},
             pipeline * alike, ranks);
  PredictionReport report;
  report.fits = prediction.fit.fits;
  report.times_guessed = prediction.guessed;
  report.times_estimated = prediction.estimated;
  report.memory = MemoryReport::of(std::move(ranks));
  report.time = prediction.time;
  report.throughput = prediction.throughput;
  return report;
}

PredictionReport report_of(const Prediction& prediction, const RunConfig& config,
                           const RepeatedSchedule& step) {
  PredictionReport report = report_of(prediction);
  report.traffic = Traffic();
  if (config.batch.dynamic_context_parallel) {
    for (const std::vector<Traffic>& replicas : dynamic_traffic(config, step))
      report.traffic = larger(*report.traffic, largest(replicas));
  } else if (!traits_of(software_of(config)).own_lists || config.mixture.routing == MixtureConfig().routing) {
    for (const std::vector<Traffic>& replicas : predict_pipeline_traffic(config, step))
      report.traffic = larger(*report.traffic, largest(replicas));
  } else {
    const std::vector<std::vector<RoutedTokens>> teacher = given_teacher_steps(config);
    report.traffic = largest(predict_traffic(config, step.once, given_routing(config),
                                             teacher.empty() ? std::vector<RoutedTokens>() : teacher.back()));
  }
  report.expert_load = predicted_load(config);
  const PackedAttention& packed = config.batch.packed;
  if (config.batch.packed_sequence) report.attention = {packed.mean, packed.slowest};
  if (prediction.device) report.device_memory = report_of(*prediction.device);
  return report;
}

std::optional<StepInterval> step_interval_of(const RunConfig& config, const RepeatedSchedule& step,
                                             const HardwareProfile& hardware) {
  if (!hardware.calibration.known()) return std::nullopt;
  ByClass longer, shorter;
  for (const SpeedClass& each : kSpeedClasses) {
    longer.*each.member = 1 + hardware.calibration.noise.*each.member;
    shorter.*each.member = 1 / (longer.*each.member);
  }
  const auto at = [&](const ByClass& speed) {
    return predict(config, step, at_speed(hardware, speed)).time.step;
  };
  return StepInterval{at(shorter), at(longer)};
}

std::optional<LaneSums> lanes_of(const RunConfig& config, const RepeatedSchedule& step,
                                 const HardwareProfile& hardware) {
  if (hardware.processors() > 0) return std::nullopt;
  return some_of(lane_sums(step, action_lanes(config, step, hardware)));
}

PredictionReport whole_report(const Prediction& prediction, const RunConfig& config,
                              const RepeatedSchedule& step, const HardwareProfile& hardware) {
  PredictionReport report = report_of(prediction, config, step);
  const ComparableFigures comparable = comparable_figures(config, hardware, prediction);
  set_verdict(verdict_of(prediction.fit, comparable.exceeding), report);
  report.step_interval = step_interval_of(config, step, hardware);
  if (const auto& interval = comparable.step) {
    const double made = prediction.time.step.value;
    report.comparable_step = StepInterval{{made * interval->low}, {made * interval->high}};
  }
  report.lanes = lanes_of(config, step, hardware);
  return report;
}

ModelReport model_report(const RunConfig& config) {
  const ModelConfig& model = config.model;
  const std::int64_t copies =
      config.prediction.repeated ? std::max<std::int64_t>(1, model.prediction_modules) : 1;
  const std::int64_t tower = config.batch.images_per_sequence > 0 ? model.predicted.vision.parameters() : 0;
  return {model.parameters() + tower, model.active_parameters() + tower, model.module_parameters() / copies,
          model_flops_per_token(config).value};
}

}  // namespace plumbline
