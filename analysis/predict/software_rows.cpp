#include "analysis/predict/software_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/hardware/profiles/software_arguments.hpp"
#include "analysis/step/software_of.hpp"
#include "core/config/layer_distribution.hpp"
#include "core/schedule/schedule_traits.hpp"

namespace plumbline {
namespace {

using C = RunConfig;
using S = Software;
using H = HardwareProfile;
using Refusal = std::optional<std::string>;

const SoftwareArguments& has(const C& c) {
  return software_arguments(c.machine.software);
}

/// Megatron's own split is even: over ranks, and of a rank's layers over its chunks. A schedule that it lacks
/// is predicted as if, in any split.
Refusal uneven_stages(const C& c, const S& software, const H* /*hardware*/) {
  const std::optional<int> stages = model_stages(c);
  if (!has(c).even_stages || !software.runs(c.parallel.pp.schedule) ||
      c.parallel.pp.layer_distribution != "even" || !stages || c.model.layers % *stages == 0)
    return std::nullopt;
  const int ranks = c.parallel.pipeline;
  const bool by_ranks = c.model.layers % ranks != 0;
  const int chunks = *stages / ranks;
  return fmt::format(
      "{}: found {} with the {} layers{} of {}, which {} splits evenly alone; expected a divisor{}",
      by_ranks ? "pipeline_model_parallel_size" : "virtual_pipeline_chunks", by_ranks ? ranks : chunks,
      by_ranks ? c.model.layers : c.model.layers / ranks, by_ranks ? "" : " of a rank", c.model.name,
      c.machine.software,
      has(c).stage_layouts ? ", or layer_distribution balanced or the layers of every stage, for a layout"
                           : "");
}

Refusal lacked_layouts(const C& c, const S& /*software*/, const H* /*hardware*/) {
  if (!has(c).even_stages || has(c).stage_layouts || c.parallel.pipeline == 1 ||
      c.parallel.pp.layer_distribution == "even")
    return std::nullopt;
  return fmt::format("layer_distribution: found {} with {}, whose stages have equal layers; expected even",
                     c.parallel.pp.layer_distribution, c.machine.software);
}

/// True for a number of stages that some number of layers per stage makes (torchtitan,
/// distributed/pipeline_parallel.py, generate_llm_fqn_per_model_part and its callers).
bool makes_stages(std::int64_t layers, std::int64_t stages) {
  const std::int64_t each = (layers + stages - 1) / stages;
  return (layers + each - 1) / each == stages;
}

/// Ends may have fewer layers, for the embedding and the output layer.
Refusal lacked_stages(const C& c, const S& /*software*/, const H* /*hardware*/) {
  constexpr int kMostLess = 8;
  const std::optional<int> stages = model_stages(c);
  if (!has(c).sized_stages || c.parallel.pipeline == 1 || !stages) return std::nullopt;
  const std::vector<int> given = layers_per_stage(c, *stages);
  const int usual = schedule_traits(c.parallel.pp.schedule).parts() * c.parallel.pipeline;
  for (int first = 0; first <= kMostLess; ++first) {
    for (int last = 0; last <= kMostLess; ++last) {
      const std::int64_t all = c.model.layers + first + last;
      std::vector<int> split = even_layers(all, *stages);
      split.front() -= first;
      split.back() -= last;
      if (split == given && (*stages == usual || makes_stages(all, *stages))) return std::nullopt;
    }
  }
  return fmt::format(
      "layer_distribution: found {} over {} stages with {}, whose stages have equal layers, as many as one "
      "size of them makes; expected other sizes",
      c.parallel.pp.layer_distribution, *stages, c.machine.software);
}

/// ZeRO 2 of software with less: neither of its own nor predicted as if.
Refusal lacked_zero_2(const C& c, const S& software, const H* /*hardware*/) {
  const int most = static_cast<int>(has(c).most_zero);
  if (c.parallel.effective_zero_stage() != 2 || software.communication.sharded || most >= 2)
    return std::nullopt;
  return fmt::format(
      "zero_stage: found 2 with {}, which shards {}; expected {}, or software megatron-bridge-fsdp with 3",
      c.machine.software, most == 0 ? "nothing" : "optimizer states alone", most == 0 ? "0" : "0 or 1");
}

Refusal lacked_zero_stage(const C& c, const S& software, const H* /*hardware*/) {
  const int most = most_zero_stage(c);
  if (c.parallel.effective_zero_stage() <= most || software.communication.sharded) return std::nullopt;
  return fmt::format("zero_stage: found {} with {}{}, which has at most {}; expected 0{}",
                     c.parallel.dp.zero_stage, c.machine.software,
                     most < has(c).most_zero ? " and several pipeline ranks" : "", most,
                     most == 0 ? "" : fmt::format(" to {}", most));
}

/// Instances of a sharded optimizer (HSDP) need something that is sharded.
Refusal lacked_instances(const C& c, const S& software, const H* /*hardware*/) {
  if (c.parallel.dp.optimizer_instances == 1 || software.communication.sharded ||
      c.parallel.dp.zero_stage > 0)
    return std::nullopt;
  const int most = most_zero_stage(c);
  return fmt::format(
      "num_distributed_optimizer_instances: found {} with zero_stage 0, which shards nothing; expected 1{}",
      c.parallel.dp.optimizer_instances, most == 0 ? "" : ", or zero_stage 1");
}

Refusal lacked_sizes(const C& c, const S& /*software*/, const H* /*hardware*/) {
  if (!has(c).pipeline && c.parallel.pipeline > 1)
    return fmt::format("pipeline_model_parallel_size: found {} with {}, which has no pipeline; expected 1",
                       c.parallel.pipeline, c.machine.software);
  if (!has(c).experts && c.parallel.expert > 1)
    return fmt::format(
        "expert_model_parallel_size: found {} with {}, which does not spread experts; expected 1",
        c.parallel.expert, c.machine.software);
  const ParallelConfig& parallel = c.parallel;
  const bool own_tensor = c.model.mixture && parallel.folds_experts();
  const int expert_tensor = parallel.effective_expert_tensor();
  if (!has(c).any_expert_tensor && own_tensor && (parallel.expert == 1 || expert_tensor != 1))
    return fmt::format(
        "expert_tensor_parallel_size: found {} with {}, expected tensor_model_parallel_size, or 1 with "
        "expert_model_parallel_size above 1",
        expert_tensor, c.machine.software);
  return std::nullopt;
}

Refusal lacked_sequences(const C& c, const S& /*software*/, const H* /*hardware*/) {
  if (c.parallel.effective_sequence_parallel() && !has(c).sequence_parallel)
    return fmt::format("sequence_parallel: found true with {}, which has none; expected false",
                       c.machine.software);
  if (c.parallel.tensor > 1 && !c.parallel.sequence_parallel && has(c).always_sequence_parallel)
    return fmt::format(
        "sequence_parallel: found false with {}, which always has it with tensor parallelism; expected true",
        c.machine.software);
  return std::nullopt;
}

Refusal lacked_context(const C& c, const S& /*software*/, const H* /*hardware*/) {
  const std::string_view type = cp_comm_type_name(c.parallel.cp.comm_type);
  const std::vector<std::string>& types = has(c).cp_comm_types;
  if (c.parallel.context == 1 || std::ranges::find(types, type) != types.end()) return std::nullopt;
  if (types.empty())
    return fmt::format("context_parallel_size: found {} with {}, which has none; expected 1",
                       c.parallel.context, c.machine.software);
  return fmt::format("cp_comm_type: found {} with {}, expected {}", type, c.machine.software,
                     fmt::join(types, " or "));
}

Refusal lacked_recomputation(const C& c, const S& /*software*/, const H* /*hardware*/) {
  if (!has(c).recompute_selective && c.recompute.granularity == Recompute::selective)
    return fmt::format("recompute_granularity: found selective with {}, expected none or full",
                       c.machine.software);
  if (!has(c).recompute_groups && c.recompute.group_size() > 1)
    return fmt::format(
        "recompute_num_layers: found {} with {}, whose layers are recomputed one by one; "
        "expected 1",
        c.recompute.num_layers, c.machine.software);
  return std::nullopt;
}

Refusal lacked_gradients(const C& c, const S& /*software*/, const H* /*hardware*/) {
  if (has(c).bf16_gradients || c.numerics.grad_type() == DType::fp32) return std::nullopt;
  return fmt::format("grad_dtype: found same with {}, whose gradients are fp32; expected fp32",
                     c.machine.software);
}

Refusal padded_vocabulary(const C& c, const S& /*software*/, const H* /*hardware*/) {
  if (has(c).pads_vocabulary || c.padded_vocab() == c.model.vocab) return std::nullopt;
  if (c.parallel.make_vocab_size_divisible_by == 1)
    return fmt::format(
        "tensor_model_parallel_size: found {} with {} token ids, which {} does not pad; "
        "expected a divisor",
        c.parallel.tensor, c.model.vocab, c.machine.software);
  return fmt::format(
      "make_vocab_size_divisible_by: found {}, by which {} token ids become {}, with {}, which pads none; "
      "expected 1",
      c.parallel.make_vocab_size_divisible_by, c.model.vocab, c.padded_vocab(), c.machine.software);
}

constexpr PredictionRow kSoftwareRows[] = {
    {"layer_distribution", "even, with stages that do not divide the layers",
     "a software that splits layers unevenly by itself", false, true, uneven_stages},
    {"zero_stage", "2", "a software that shards gradients", false, true, lacked_zero_2},
    {"num_distributed_optimizer_instances", "above 1", "zero_stage 1, 2 or 3, or a software that is FSDP",
     false, true, lacked_instances},
    {"pipeline_model_parallel_size", "above 1, as expert size", "a software that has it", true, true,
     lacked_sizes},
    {"layer_distribution", "other than even", "a software with stages of unequal layers", true, true,
     lacked_layouts},
    {"layer_distribution", "any", "stages of equal layers, with torchtitan", true, true, lacked_stages},
    {"zero_stage", "any", "a software that has the stage", true, true, lacked_zero_stage},
    {"sequence_parallel", "true, or false with tensor parallelism", "a software that has it, or not", true,
     true, lacked_sequences},
    {"cp_comm_type", "any", "a software that has it", true, true, lacked_context},
    {"recompute_granularity", "selective, or full with recompute_num_layers above 1",
     "a software that has it", true, true, lacked_recomputation},
    {"grad_dtype", "same", "a software with gradients in 16 bits", true, true, lacked_gradients},
    {"make_vocab_size_divisible_by", "above 1", "a software that pads the vocabulary", true, true,
     padded_vocabulary},
};

}  // namespace

std::span<const PredictionRow> software_rows() {
  return kSoftwareRows;
}

int most_zero_stage(const RunConfig& config) {
  const SoftwareArguments& arguments = has(config);
  return static_cast<int>(config.parallel.pipeline > 1
                              ? std::min(arguments.most_zero, arguments.most_zero_pipelined)
                              : arguments.most_zero);
}

std::optional<int> model_stages(const RunConfig& config) {
  const ScheduleTraits* const traits = find_schedule_traits(config.parallel.pp.schedule);
  if (config.parallel.pipeline == 1) return 1;
  if (traits == nullptr) return std::nullopt;
  return config.parallel.pipeline * std::max(config.parallel.pp.virtual_chunks, traits->parts());
}

}  // namespace plumbline
