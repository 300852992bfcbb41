// Everything the stages of one rank share: memory, shapes, token ids, units in progress.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "bench/training/feed_forward/expert_load.hpp"
#include "bench/training/feed_forward/routing.hpp"
#include "bench/training/layer/microbatch_dropout.hpp"
#include "bench/training/linear/fp8_layers.hpp"
#include "bench/training/parameters/context.hpp"
#include "bench/training/parameters/conversations.hpp"
#include "bench/training/parameters/parameter_memory.hpp"
#include "bench/training/parameters/unit_gradients.hpp"
#include "bench/training/parameters/unit_values.hpp"

namespace plumbline::training {

struct RankResources {
  /// Memory for the parameters of those stages. `scratch`: attention's, of another model on this rank that
  /// never runs at the same time. Without it this object makes its own.
  RankResources(TrainingContext made_of, StageMap map, RankParameters own,
                std::optional<Matrix> scratch = {});
  RankResources(const RankResources&) = delete;  // its parts refer to each other
  RankResources& operator=(const RankResources&) = delete;

  TrainingContext context;
  const StageMap placement;
  const RankParameters parameters;
  ParameterMemory memory;
  Fp8Layers fp8;
  Tensor attention_scratch;
  SharedBuffers shared;
  UnitValues values;
  UnitValues expert_values;  // if experts are spread over ranks
  UnitGradients gradients;
  Tensor inputs, targets;  // (M, T) token ids, where a first or last stage or a shard needs them
  /// (modules·M, T), module after module: inputs and targets of the MTP modules; on a last stage.
  Tensor module_inputs, module_targets;
  /// (4·M, T) fp32, micro-batch after micro-batch: tokens of Operators::policy_loss or value_loss; a
  /// last stage's in reinforcement learning.
  Tensor policy_tokens;
  std::vector<std::int64_t> module_counted;  // as counted_tokens, of every module
  std::vector<ExpertLoad> expert_load;       // of this step's forwards; MoE layers only
  std::int64_t step = 0;                     // of training, the first is 1: decides dropped elements
  std::int64_t counted_tokens = 0;           // of the global batch, in this step: those with a target

  /// By micro-batch of this step, with packed_sequence; else empty.
  std::vector<Conversations> conversations;
  double attended_pairs = 0;  // of this step's backwards, over all layers; with packed_sequence

  /// At the begin of an action: those of its micro-batch.
  void use_conversations(std::uint32_t microbatch) {
    shared.conversations = conversations.empty() ? nullptr : &conversations[microbatch];
    shared.attended_pairs = &attended_pairs;
  }
  /// World rank of the one that holds the stage in this rank's own tensor and data coordinates.
  int rank_of_stage(int stage) const {
    const Layout& layout = context.communicator.layout();
    Coordinates at = layout.coordinates(context.communicator.rank());
    at.pipeline = placement.rank_of_stage[static_cast<std::size_t>(stage)];
    return layout.rank_of(at);
  }
  /// Records the load of an MoE layer in expert_load; nothing for other layers.
  void note_expert_load(std::uint32_t microbatch, std::int64_t layer, const Routing& routing);
  MicrobatchDropout dropout(std::uint32_t microbatch) const { return {context, step, microbatch}; }
  Matrix input_tokens(std::uint32_t microbatch) const { return inputs.matrix().row_range(microbatch, 1); }
  /// Share of the mean loss of one token with a target.
  double per_token() const { return 1.0 / static_cast<double>(std::max<std::int64_t>(counted_tokens, 1)); }
  /// The same of the loss that gradients are of.
  double scaled_per_token() const { return context.loss_scale() * per_token(); }
  Matrix target_tokens(std::uint32_t microbatch) const { return targets.matrix().row_range(microbatch, 1); }
  Matrix policy_tokens_of(std::uint32_t microbatch) const {
    return policy_tokens.matrix().row_range(4 * std::int64_t{microbatch}, 4);
  }
  /// The same for a module.
  Matrix module_tokens(const Tensor& of, std::size_t module, std::uint32_t microbatch) const {
    return of.matrix().row_range(static_cast<std::int64_t>(module) * placement.microbatches + microbatch, 1);
  }
  double per_module_token(std::size_t module) const {
    const double all = context.loss_scale() * context.config.prediction.loss_scaling_factor;
    const std::int64_t counted = std::max<std::int64_t>(module_counted[module], 1);
    return all / static_cast<double>(module_counted.size()) / static_cast<double>(counted);
  }
};

}  // namespace plumbline::training
