#include "analysis/predict/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/slower_ranks.hpp"
#include "analysis/simulate/step_simulation.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/flops.hpp"
#include "analysis/work/framework_list.hpp"
#include "analysis/work/routing/given_routing.hpp"
#include "core/base/error.hpp"
#include "core/config/distillation_config.hpp"

namespace plumbline {
namespace {

/// Share of communication in the time of a step's actions.
struct Shares {
  double tensor = 0;
  double data = 0;
  double copies = 0;
  std::array<double, kVocabularyCalls> vocabulary{};
};

Shares communication_shares(const RepeatedSchedule& step, const StageCostsPrediction& predicted) {
  PassCommunication waits;
  Seconds all;
  const auto add = [&](const PassCommunication& part, Seconds cost, double times = 1) {
    waits.tensor += part.tensor * times;
    waits.data += part.data * times;
    waits.copies += part.copies * times;
    for (std::size_t i = 0; i < kVocabularyCalls; ++i) waits.vocabulary[i] += part.vocabulary[i] * times;
    all += cost * times;
  };
  const ActionCounts counts = count_by_stage(step);
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    const StageCommunication& part = predicted.communication[stage];
    const StageCosts& cost = predicted.costs.stages[stage];
    const auto times = [&](ActionType type) {
      return static_cast<double>(counts[stage][static_cast<std::size_t>(type)]);
    };
    add(part.teacher_forward, cost.teacher_forward, times(ActionType::teacher_forward));
    for (const Phase& phase : kPhases) add(part.*phase.communication, cost.*phase.cost, times(phase.type));
  }
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    const StageCosts& cost = predicted.costs.stages[stage];
    const StageCommunication& lone = predicted.communication[stage];
    add({lone.lone_backward, cost.last_backward - lone.lone_backward, {}, {}}, cost.last_backward);
    add({lone.lone_forward, cost.first_forward - lone.lone_forward, {}, {}}, cost.first_forward);
  }
  for (const PairSaving& pair : predicted.pairs)
    add({pair.tensor, {}, {}, {}}, pair.all, -static_cast<double>(pair.count));
  if (all.value <= 0) return {};
  Shares shares{waits.tensor / all, waits.data / all, waits.copies / all};
  for (std::size_t i = 0; i < kVocabularyCalls; ++i) shares.vocabulary[i] = waits.vocabulary[i] / all;
  return shares;
}

/// Shares of communication are those of `predicted`. Adds to `vocabulary` the actions' own waits for its
/// collectives.
StepTime step_time(const RepeatedSchedule& step, const StepSummary& summary,
                   const StageCostsPrediction& predicted, VocabularyOverlap& vocabulary) {
  StepTime time;
  const Bubble bubble = bubble_of(summary);
  time.bubble_ratio = bubble.ratio;
  time.bubble_fraction = bubble.fraction;
  const Seconds window = seconds_of(summary.pipeline_end);
  const Seconds busy = window * (1 - bubble.fraction);
  const Shares shares = communication_shares(step, predicted);
  time.exposed_tensor = busy * shares.tensor;
  Seconds waited;
  for (std::size_t i = 0; i < kVocabularyCalls; ++i) {
    const Seconds in_actions = busy * shares.vocabulary[i];
    if (in_actions.value <= 0) continue;
    vocabulary[i].time += in_actions;
    vocabulary[i].exposed += in_actions;
    vocabulary[i].waited += in_actions;
    vocabulary[i].overlapped = 0;
    waited += in_actions;
  }
  time.compute = busy * (1 - shares.tensor - shares.data - shares.copies) - waited;
  time.exposed_pipeline = window - busy + waited;
  time.exposed_data = busy * shares.data + summary.reducing;
  time.exposed_offload = busy * shares.copies;
  time.optimizer = summary.optimizing;
  time.step = seconds_of(summary.makespan) + predicted.costs.step_overhead;
  return time;
}

}  // namespace

Throughput throughput_of(const RunConfig& config, const HardwareProfile& hardware, Seconds step, int stages) {
  Throughput throughput;
  throughput.peak_tflops = hardware.peak(config.numerics.precision).value / 1e12;
  if (step.value <= 0) return throughput;
  const double tokens = static_cast<double>(config.batch.global_batch_size * config.batch.seq_length);
  throughput.tokens_per_s = tokens / step.value;
  throughput.tokens_per_s_per_gpu = throughput.tokens_per_s / config.layout().world();
  const double flops_per_token = model_flops_per_token(config).value;
  throughput.model_tflops_per_gpu = throughput.tokens_per_s_per_gpu * flops_per_token / 1e12;
  throughput.mfu = throughput.model_tflops_per_gpu / throughput.peak_tflops;
  if (stages == 0) stages = config.parallel.pipeline * config.parallel.pp.virtual_chunks;
  const double executed = executed_flops_per_token(config, stages).value;
  throughput.hfu = throughput.tokens_per_s_per_gpu * executed / 1e12 / throughput.peak_tflops;
  return throughput;
}

std::string explain_throughput(const RunConfig& config, const Throughput& throughput, int stages) {
  if (stages == 0) stages = config.parallel.pipeline * config.parallel.pp.virtual_chunks;
  const std::int64_t window = config.model.window.size;
  const std::int64_t prefix = config.batch.prefix_length;
  const bool windows = (window > 0 && window < config.batch.seq_length) || prefix > 0;
  return fmt::format(
      "MFU = ({}) FLOP/token × tokens/s ÷ (ranks × peak)\n"
      "    = {:.4g} × {:.4g} ÷ ({} × {:.4g} TFLOP/s, dense, {}) = {:.4f}\n{}"
      "    N = {} weights in matrix products (output layer included, lookups not); attention counts {}{}\n"
      "HFU = executed FLOP/token × tokens/s ÷ (ranks × peak), recomputation and padding included\n"
      "    = {:.4g} × {:.4g} ÷ ({} × {:.4g} TFLOP/s) = {:.4f}\n",
      windows ? "6·N + 12·L·a·d·n" : "6·N + 6·L·a·d·s", model_flops_per_token(config).value,
      throughput.tokens_per_s, config.layout().world(), throughput.peak_tflops,
      name_of(config.numerics.precision), throughput.mfu,
      config.numerics.fp8.on()
          ? "    relative to the storage type's peak, although linear layers are in FP8\n"
      : config.numerics.fp4_format != Fp4Format::none
          ? "    relative to the storage type's peak, although linear layers are in NVFP4\n"
          : "",
      matmul_parameters(config.model),
      windows ? fmt::format("the\n    {:.6g} keys n that a query sees on average over positions and layers "
                            "(without {} s/2)",
                            config.model.mean_keys(config.batch.seq_length, prefix),
                            prefix > 0 ? "a prefix" : "windows")
              : fmt::format("the\n    causal half (the full square would be 12·L·a·d·s){}",
                            config.batch.packed.on()
                                ? fmt::format(", of which documents leave {:.4g}", config.batch.packed.mean)
                                : ""),
      fmt::format("{}{}", config.model.prediction_modules > 0 ? "; plus MTP modules" : "",
                  config.distillation.teacher ? "; plus a third of the same for the teacher's forward" : ""),
      executed_flops_per_token(config, stages).value, throughput.tokens_per_s, config.layout().world(),
      throughput.peak_tflops, throughput.hfu);
}

namespace {

/// Keeps for every rank the step with the highest peak.
void take_larger(MemoryPrediction step, MemoryPrediction& all) {
  if (all.ranks.empty()) {
    all = std::move(step);
    return;
  }
  for (std::size_t i = 0; i < all.ranks.size(); ++i) {
    if (step.ranks[i].peak.total() > all.ranks[i].peak.total()) all.ranks[i] = std::move(step.ranks[i]);
  }
  if (step.peak > all.peak) {
    all.peak = step.peak;
    all.peak_rank = step.peak_rank;
  }
}

/// `longer`: empty, or as in predict(). `traced`: its `collectives`.
Prediction predict_with(const RunConfig& config, const RepeatedSchedule& step,
                        const HardwareProfile& hardware, const Software& software,
                        const std::vector<double>& longer = {}, bool traced = true) {
  if (const auto reason = why_unpredictable(config, hardware)) throw InputError(*reason);
  Prediction prediction;
  prediction.guessed = hardware.guessed();
  prediction.estimated = hardware.accelerator() != nullptr;
  const Schedule& schedule = step.once;
  const StepModel model(config, schedule, software);
  MeanRows rows;
  if (!model.any().traits.own_lists || config.mixture.routing == MixtureConfig().routing) {
    prediction.memory = predict_memory(model, step);
  } else {
    const std::vector<std::vector<RoutedTokens>> steps = given_steps(config);
    const std::vector<std::vector<RoutedTokens>> teacher = given_teacher_steps(config);
    const bool both = !teacher.empty() && config.model.mixture;
    if (both && teacher.size() != steps.size()) {
      throw InputError(fmt::format("{}: found {} steps, expected the {} of {}; save both in one run",
                                   teacher_routing_file(config.mixture.routing), teacher.size(), steps.size(),
                                   config.mixture.routing));
    }
    const RoutedMemory memory(model);
    for (std::size_t i = 0; i < std::max(steps.size(), teacher.size()); ++i) {
      const std::span<const RoutedTokens> even;
      take_larger(memory.of(steps[both || teacher.empty() ? i : 0], teacher.empty() ? even : teacher[i]),
                  prediction.memory);
    }
    rows = mean_rows(model, steps);
  }
  prediction.device = device_memory_of(config, channel_ends(schedule), hardware, prediction.memory, software);
  prediction.fit = fit_of(config, hardware, prediction.memory, prediction.device);
  StepSimulation simulation(step);
  StageCostsPrediction predicted = stage_costs(model, simulation, hardware, rows);
  const bool collectives = traced && schedule.vocab != VocabPasses::none;
  prediction.costs = longer.empty() ? predicted.costs : with_slower_ranks(predicted.costs, schedule, longer);
  if (collectives) prediction.vocabulary = vocabulary_overlap(simulation.trace(prediction.costs));
  prediction.time = step_time(step, simulation.run(prediction.costs), predicted, prediction.vocabulary);
  prediction.time.exposed_vocabulary = total_of(prediction.vocabulary, &CollectiveOverlap::waited);
  if (collectives) prediction.time.vocabulary_collectives = prediction.vocabulary;
  prediction.throughput = throughput_of(config, hardware, prediction.time.step, schedule.stages_per_route());
  prediction.lines = std::move(predicted.lines);
  return prediction;
}

}  // namespace

Prediction predict(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware) {
  return predict_with(config, step, hardware, software_of(config));
}

Prediction predict(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware,
                   const std::vector<double>& longer) {
  return predict_with(config, step, hardware, software_of(config), longer);
}

Prediction predict(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware,
                   const Software& software, bool collectives) {
  return predict_with(config, step, hardware, software, {}, collectives);
}

}  // namespace plumbline
