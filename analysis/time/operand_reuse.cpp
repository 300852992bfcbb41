#include "analysis/time/operand_reuse.hpp"

#include <algorithm>

#include "analysis/memory/persistent_memory.hpp"
#include "analysis/step/parameters.hpp"
#include "analysis/work/operator_list.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {
namespace {

/// Bytes of a layer's activations per token.
std::int64_t layer_bytes(const StageShape& shape) {
  const std::int64_t masks = shape.block.dropout ? 2 * shape.stream.hidden : 0;
  const std::int64_t operand =
      shape.numerics.fp8 ? 1 : shape.numerics.e();  // bytes of norm outputs and activation output
  const std::int64_t experts = shape.mixture() ? shape.moe.choices / shape.stream.tokens : 1;  // of a token
  return masks +
         shape.numerics.e() * (2 * shape.stream.hidden + shape.attention.qkv() + shape.attention.attended() +
                               (shape.attention.latent() ? 2 * shape.attention.compressed() : 0) +
                               experts * shape.mlp.fc1 + 2 * shape.moe.shared) +
         operand * (2 * shape.stream.hidden + experts * shape.mlp.ffn + shape.moe.shared);
}

std::int64_t logits_bytes(const StageShape& shape) {
  const bool scores = shape.scores() || shape.vocabulary.carries;
  return scores
             ? shape.stream.tokens * (shape.ends.loss_in_fp32 ? 4 : shape.numerics.e()) * shape.ends.outputs
             : 0;
}

/// Bytes touched by a stage's forward and backward: weights, gradients and the activations of a micro-batch.
std::int64_t touched_bytes(const StageShape& shape) {
  const bool quantized =
      shape.numerics.fp8 && shape.sharding.zero < 3;  // weights, in both forms that products read
  const StageParameters all = parameters_of(shape);
  // An untied embedding contributes only the rows of the tokens.
  const std::int64_t rows = std::min(shape.stream.tokens * shape.stream.hidden, all.embedding);
  const std::int64_t unused = shape.scores() && all.output == 0 ? 0 : all.embedding - rows;
  const std::int64_t parameters = (all.total() - unused) * (shape.numerics.e() + shape.numerics.g()) +
                                  (quantized ? 2 * shape.layers * layer_matrices(shape) : 0);
  const std::int64_t modules = shape.own_modules();
  const std::int64_t layers = shape.layers + modules;
  // Recomputed layers use the same memory one after the other, and keep their inputs.
  const std::int64_t activations =
      shape.recomputation.granularity == Recompute::full
          ? layer_bytes(shape) + layers * shape.stream.hidden * shape.numerics.e()
          : layers * layer_bytes(shape);
  return parameters + shape.stream.tokens * activations + (1 + modules) * logits_bytes(shape);
}

/// The same for a teacher's forward, which keeps nothing.
std::int64_t touched_bytes_of_teacher(const StageShape& shape) {
  return parameters_of(shape).total() * shape.numerics.e() + shape.stream.tokens * layer_bytes(shape) +
         logits_bytes(shape);
}

/// True if a rank computes for teacher and student alternately, not first for one and then for the other.
bool teacher_takes_turns(const Schedule& schedule) {
  return std::any_of(
      schedule.actions.begin(), schedule.actions.end(), [](const std::vector<Action>& actions) {
        const auto is = [](ActionType type) {
          return [type](const Action& action) { return action.type == type; };
        };
        const auto first = std::find_if(actions.begin(), actions.end(), is(ActionType::forward));
        return std::any_of(first, actions.end(), is(ActionType::teacher_forward));
      });
}

}  // namespace

OperandReuse::OperandReuse(const RunConfig& config, const Schedule& schedule,
                           const std::vector<StageShape>& shapes, const std::vector<StageShape>& teachers,
                           const HardwareProfile& hardware, double turns)
    : config_(config),
      schedule_(schedule),
      shapes_(shapes),
      teachers_(teachers),
      measured_(!hardware.alone.empty() || !hardware.busy.empty()),
      teacher_in_turn_(teacher_takes_turns(schedule)),
      turns_(turns) {}

Load OperandReuse::of(const StageShape& shape, ActionType type, Load load) const {
  if (!measured_) return load;
  const HeldStages stages = stages_on_rank(
      config_, schedule_, shapes_, schedule_.rank_of_stage[static_cast<std::size_t>(shape.place.stage)]);
  const bool of_teacher = type == ActionType::teacher_forward;
  std::int64_t bytes = 0;
  std::int64_t layers = 0;
  for (const StageShape& held : stages.held) {
    layers += held.layers;
    if (!of_teacher || teacher_in_turn_) bytes += touched_bytes(held);
    if (!teachers_.empty() && (of_teacher || teacher_in_turn_))
      bytes += touched_bytes_of_teacher(teachers_[static_cast<std::size_t>(held.place.stage)]);
  }
  const Bytes cycle = in_turns(bytes);
  load.gradients = {.apart = cycle};
  load.operands = {.apart = cycle};
  if (type == ActionType::forward) {
    load.operands = {.apart = in_turns(held_bytes(stages.held, config_).total().value),
                     .evenly_within = cycle,
                     .share_apart = 1.0 / config_.microbatches()};
  } else if (!of_teacher) {
    load.operands = {.apart = {}, .evenly_within = cycle, .share_apart = 0};
  }
  load.weights_in_backward = load.operands;
  // Recomputation has used a layer's weights just before.
  if (shape.recomputation.granularity == Recompute::full && layers > 0)
    load.weights_in_backward = {.apart = in_turns(bytes / layers)};
  return load;
}

Bytes OperandReuse::in_turns(std::int64_t bytes) const {
  return {static_cast<std::int64_t>(static_cast<double>(bytes) * turns_)};
}

}  // namespace plumbline
