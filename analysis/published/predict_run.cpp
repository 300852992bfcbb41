#include "analysis/published/predict_run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/cluster/memory.hpp"
#include "analysis/search/search.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/layer_distribution.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline::cluster {
namespace {

/// What the cluster model does not know of a configuration.
std::vector<std::string> unmodelled_by_cluster(const RunConfig& config, const Profiles& profiles) {
  std::vector<std::string> features;
  const auto add = [&](std::string_view key, const std::string& value) {
    features.push_back(fmt::format("{} {}", key, printable(value)));
  };
  if (!profiles.machines.contains(config.machine.hardware)) add("hardware", config.machine.hardware);
  const auto software = profiles.software.find(config.machine.software);
  if (software == profiles.software.end()) {
    add("software", config.machine.software);
  } else if (config.numerics.fp8.on() != software->second.fp8) {
    add("precision", config.numerics.fp8.on() ? "fp8" : "of 16 bit with " + config.machine.software);
  }
  if (config.parallel.context > 1) features.emplace_back("context_parallel_size");
  if (config.parallel.expert > 1) features.emplace_back("expert_model_parallel_size");
  if (config.numerics.precision == DType::fp32) add("precision", "fp32");
  if (config.optimizer.kind != Optimizer::adam) add("optimizer", "sgd");
  if (config.distillation.teacher) features.emplace_back("teacher");
  if (find_schedule_traits(config.parallel.schedule) == nullptr) {
    add("pipeline_schedule", config.parallel.schedule);
  }
  return features;
}

Recomputation recomputation_of(Recompute granularity) {
  return granularity == Recompute::full        ? Recomputation::full
         : granularity == Recompute::selective ? Recomputation::selective
                                               : Recomputation::none;
}

/// The cluster model's input.
struct ClusterInput {
  Job job;
  Placement placement;
  ScheduleNeed schedule;
};

ClusterInput cluster_input(const PublishedRun& run, const Software& software) {
  const RunConfig& config = run.config;
  const ParallelConfig& parallel = config.parallel;
  const ScheduleTraits& traits = schedule_traits(parallel.schedule);
  ClusterInput input;
  Job& job = input.job;
  job.model = model_of(config.model);
  job.sequence = static_cast<double>(config.batch.seq_length);
  job.tensor = parallel.tensor;
  job.pipeline = parallel.pipeline;
  job.data = parallel.data();
  job.chunks = traits.any_chunks() && parallel.virtual_chunks > 1 ? parallel.virtual_chunks : traits.parts();
  job.micro_batch = static_cast<int>(config.batch.micro_batch_size);
  job.microbatches = config.microbatches();
  job.sequence_parallel = parallel.effective_sequence_parallel();
  job.recomputation = recomputation_of(config.recompute.granularity);
  job.recompute_layers = static_cast<double>(config.recompute.num_layers);
  job.zero = software.sharded ? 0 : parallel.effective_zero_stage();
  job.half_gradients = config.numerics.grad_dtype == GradDType::same;
  job.vocabulary = parallel.vocab_parallel;
  job.hidden_dropout = config.numerics.hidden_dropout > 0;
  job.attention_dropout = config.numerics.attention_dropout > 0;
  for (const int layers : layers_per_stage(config, job.pipeline * job.chunks)) {
    input.placement.layers.push_back(layers);
  }
  ScheduleNeed& need = input.schedule;
  need.name = parallel.schedule;
  need.pipeline = job.pipeline;
  need.microbatches = job.microbatches;
  need.chunks = traits.bidirectional() ? traits.chunks() : job.chunks;
  need.vocabulary = job.vocabulary;
  need.memory_limit = run.zero_bubble_memory * job.pipeline;
  return input;
}

}  // namespace

PredictedRun predict_run(const PublishedRun& run, const Profiles& profiles, const ScheduleMaker& make) {
  PredictedRun predicted;
  predicted.unmodelled = run.unmodelled;
  for (std::string& feature : unmodelled_by_cluster(run.config, profiles)) {
    predicted.unmodelled.push_back(std::move(feature));
  }
  if (!predicted.unmodelled.empty()) return predicted;
  const Machine& machine = profiles.machine(run.config.machine.hardware);
  const Software& software = profiles.generation(run.config.machine.software);
  const ClusterInput input = cluster_input(run, software);
  constexpr double kMostActions = 4e6;
  if (static_cast<double>(input.placement.layers.size()) * input.job.microbatches > kMostActions) {
    throw InputError(fmt::format("{} stages by {} micro-batches: expected at most {:.0f} together",
                                 input.placement.layers.size(), input.job.microbatches, kMostActions));
  }
  ScheduleNeed timed = input.schedule;
  // The passes of a V-shaped schedule are part of its block (analysis/cluster/stage_cost.cpp).
  if (schedule_traits(timed.name).v_shaped()) timed.vocabulary = VocabPasses::none;
  if (run.measured.step_s > 0) {
    predicted.step_s = step_times(machine, software, input.job, input.placement, timed, make).step_s;
  }
  if (run.measured.peak_bytes > 0) {
    const Costs costs = stage_costs(machine, software, input.job, input.placement);
    const std::vector<RankBytes> ranks =
        rank_memory(software, input.job, input.placement, make(input.schedule, costs));
    predicted.peak_bytes = run.measured.memory_of == MemoryOf::first  ? ranks.front().total()
                           : run.measured.memory_of == MemoryOf::last ? ranks.back().total()
                                                                      : peak_memory(ranks);
  }
  return predicted;
}

}  // namespace plumbline::cluster
