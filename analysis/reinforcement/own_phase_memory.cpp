#include "analysis/reinforcement/own_phase_memory.hpp"

#include <algorithm>
#include <utility>

#include "analysis/memory/action_memory.hpp"
#include "analysis/memory/persistent_memory.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/parameter_units.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

/// A model on one pipeline rank.
struct ModelOnRank {
  const TrainingModel& model;
  const RankMemory& rank;
  StageShape shape;
  MemoryBreakdown held;

  ModelOnRank(const TrainingModel& of, std::size_t at)
      : model(of), rank(of.memory.ranks[at]), shape(shape_of(of, rank.pipeline_rank)), held(rank.held) {
    if (of.trained) {
      // Numbers of a loss's tokens, four rows of fp32.
      if (shape.place.last)
        held[Category::workspace].value += std::int64_t{16} * of.config.microbatches() * shape.stream.tokens;
      return;
    }
    // The teacher of a rank is as a reference: whole, with tables of its own, in the other's scratch.
    const MemoryBreakdown both = held_bytes({&shape, 1}, of.config, {&shape, 1});
    const MemoryBreakdown alone = held_bytes(shape, of.config);
    held = {};
    held[Category::parameters] = both[Category::teacher];
    held[Category::workspace] = both[Category::workspace] - alone[Category::workspace];
  }

  static StageShape shape_of(const TrainingModel& of, int pipeline_rank) {
    RunConfig config = of.config;
    if (!of.trained) config.parallel.dp.zero_stage = 0;
    return stage_shapes(config, config.parallel.pipeline)[static_cast<std::size_t>(pipeline_rank)];
  }

  Bytes vectors() const {
    const auto& numbers = shape.numerics;
    return {elements_of(shape).vectors * (numbers.e() + (model.trained ? numbers.g() : 0))};
  }
  Bytes states() const {
    return held[Category::parameters] + held[Category::gradients] + held[Category::optimizer];
  }

  void add_parameters(MemoryParts& parts) const {
    parts.push_back({model.name + " parameters", held[Category::parameters]});
  }
  void add_states(MemoryParts& parts) const {
    add_parameters(parts);
    if (!model.trained) return;
    parts.push_back({model.name + " gradients", held[Category::gradients], Category::gradients});
    parts.push_back({model.name + " optimizer", held[Category::optimizer], Category::optimizer});
  }
  void add_held(bool offloads, bool works, PhaseKind kind, MemoryParts& parts) const {
    if (!offloads || (works && kind == PhaseKind::update)) {
      add_states(parts);
    } else if (works) {
      add_parameters(parts);
      if (model.trained)
        parts.push_back({model.name + " gradients of vectors",
                         {elements_of(shape).vectors * shape.numerics.g()},
                         Category::gradients});
    } else {
      parts.push_back({model.name + " vectors", vectors()});
    }
    parts.push_back({model.name + " buffers", held.total() - states(), Category::workspace});
  }

  /// Beside what is held: a forward that keeps nothing, then logits and numbers of the loss.
  Bytes scoring() const {
    StageShape pass = shape;
    pass.distillation.on = pass.distillation.hidden = true;
    const bool first = shape.place.first, last = shape.place.last;
    const std::int64_t stream = shape.stream.rows * shape.stream.hidden * shape.numerics.e();
    std::int64_t waiting = 4 * shape.stream.tokens * ((first ? 1 : 0) + (last ? 1 : 0));  // ids
    if (!last) waiting += stream;                                                         // send buffer
    std::int64_t most = action_profile(pass, ActionType::teacher_forward, false).peak.total().value;
    if (!first) most += stream;  // input
    if (last) {
      const std::int64_t logits = shape.stream.tokens * shape.ends.outputs * shape.numerics.e();
      const std::int64_t gathered = shape.sharding.sequence_parallel
                                        ? shape.stream.tokens * shape.stream.hidden * shape.numerics.e()
                                        : 0;
      const std::int64_t rows = model.config.model.embedding.scalar_head ? 1 : 3;
      most = std::max({most, stream + gathered + logits, logits + 4 * rows * shape.stream.tokens});
    }
    return {waiting + most + gathered_weights()};
  }

  /// ZeRO 3: the unit in use and the next one, at most.
  std::int64_t gathered_weights() const {
    if (shape.sharding.zero < 3) return 0;
    std::int64_t before = 0, most = 0;
    for (const ParameterUnit& unit : units_of(shape)) {
      if (unit.pieces == 1) continue;
      most = std::max(most, before + unit.padded);
      before = shape.overlap.param_gather ? unit.padded : 0;
    }
    return most * shape.numerics.e();
  }
};

void add_rollout(const RolloutPrediction& rollout, PhaseKind kind, std::size_t rank, MemoryParts& parts) {
  const GenerationMemory& of = rollout.at_once.ranks[std::min(rank, rollout.at_once.ranks.size() - 1)];
  parts.push_back({"rollout parameters", of.parameters});
  if (kind == PhaseKind::refit) return parts.push_back({"rollout buffers", of.held, Category::workspace});
  parts.push_back({"rollout workspace", of.workspace, Category::workspace});
  parts.push_back({"KV cache", of.cache, Category::activations});
}

/// The largest message of a refit between two pools, or the largest rectangle, which is one of its own. A
/// pair of ranks shares what both splits give to them.
MemoryPart refit_message(const RunConfig& config, const RolloutPrediction& rollout) {
  constexpr Bytes kMost{std::int64_t{64} << 20};
  const ParallelConfig& from = config.parallel;
  const ParallelConfig to = rollout_config(config).parallel;
  Bytes weights;
  for (const GenerationMemory& rank : rollout.at_once.ranks) weights += rank.parameters * to.tensor;
  const int pieces = std::max(from.tensor, to.tensor) * std::max(from.pipeline, to.pipeline) *
                     (from.effective_zero_stage() == 3 ? from.data() : 1);
  return {"refit message", std::min(kMost, weights / pieces), Category::communication};
}

}  // namespace

bool is_own_step(const RunConfig& config) {
  const auto own = [](std::string_view name) { return name == "plumbline"; };
  return own(config.machine.software) && own(config.reinforcement.rollout.software) &&
         !config.reinforcement.reward;
}

MemoryParts own_phase_memory(const RunConfig& config, const RolloutPrediction& rollout,
                             const std::vector<TrainingModel>& models, PhaseKind kind,
                             const TrainingModel& active) {
  const RolloutConfig& of = config.reinforcement.rollout;
  const bool offloads = of.placement == RolloutPlacement::colocated;
  const bool generates = !of.own_ranks() && (kind == PhaseKind::refit || kind == PhaseKind::rollout);
  const bool sends = of.own_ranks() && kind == PhaseKind::refit;
  MemoryParts fullest;
  if (sends) {
    add_rollout(rollout, kind, 0, fullest);
    fullest.push_back(refit_message(config, rollout));
  }
  for (std::size_t i = 0; i < active.memory.ranks.size(); ++i) {
    MemoryParts parts;
    for (const TrainingModel& model : models) {
      const ModelOnRank here(model, i);
      const bool works = &model == &active && kind != PhaseKind::rollout;
      here.add_held(offloads, works, kind, parts);
      if (!works || kind == PhaseKind::refit) continue;
      const Bytes passing =
          kind == PhaseKind::scoring ? here.scoring() : here.rank.peak.total() - here.rank.held.total();
      parts.push_back({"activations", passing, Category::activations});
    }
    if (generates) add_rollout(rollout, kind, i, parts);
    if (sends) parts.push_back(refit_message(config, rollout));
    if (fullest.empty() || sum_of(parts) > sum_of(fullest)) fullest = std::move(parts);
  }
  return fullest;
}

}  // namespace plumbline
