#include "analysis/reinforcement/own_phase_memory.hpp"

#include <algorithm>
#include <utility>

#include "analysis/memory/action_memory.hpp"
#include "analysis/memory/persistent_memory.hpp"
#include "analysis/reinforcement/refit_time.hpp"
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
    // The teacher of a rank is as a reference: whole, with tables of its own, in the other's scratch. A
    // reward model has its own scratch.
    const MemoryBreakdown both = held_bytes({&shape, 1}, of.config, {&shape, 1});
    const MemoryBreakdown alone = held_bytes(shape, of.config);
    held = {};
    held[Category::parameters] = both[Category::teacher];
    held[Category::workspace] = both[Category::workspace] - alone[Category::workspace];
    if (of.config.model.embedding.scalar_head)
      held[Category::workspace] += Bytes{4 * attention_scratch_elements(shape)};
  }

  static StageShape shape_of(const TrainingModel& of, int pipeline_rank) {
    RunConfig config = of.config;
    if (!of.trained) {
      config.parallel.dp.zero_stage = 0;
      config.recompute = {};
    }
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

  /// Beside what is held: a forward that keeps nothing but logits, then numbers of the loss.
  Bytes scoring() const {
    StageShape pass = shape;
    pass.distillation.on = true;
    pass.distillation.cached_size = shape.numerics.e();
    const bool first = shape.place.first, last = shape.place.last;
    const std::int64_t stream = shape.stream.rows * shape.stream.hidden * shape.numerics.e();
    std::int64_t waiting = 4 * shape.stream.tokens * ((first ? 1 : 0) + (last ? 1 : 0));  // ids
    if (!last) waiting += stream;                                                         // send buffer
    std::int64_t most = action_profile(pass, ActionType::teacher_forward, false).peak.total().value;
    if (!first) most += stream;  // input
    if (last) {
      const std::int64_t logits = shape.stream.tokens * shape.ends.outputs * shape.numerics.e();
      const std::int64_t rows = model.config.model.embedding.scalar_head ? 1 : 3;
      most = std::max(most, logits + 4 * rows * shape.stream.tokens);
    }
    return {waiting + most};
  }
};

/// A rollout's tensors on a rank, behind what else it has.
MemoryParts with_rollout(const GenerationMemory& of, PhaseKind kind, MemoryParts parts) {
  parts.push_back({"rollout parameters", of.parameters});
  if (kind == PhaseKind::refit) {
    parts.push_back({"rollout buffers", of.held, Category::workspace});
  } else {
    parts.push_back({"rollout workspace", of.workspace, Category::workspace});
    parts.push_back({"KV cache", of.cache, Category::activations});
  }
  return parts;
}

/// Messages that a rank has at once in a refit, each of at most 64 MiB or of one rectangle of a tensor, which
/// is about as large as others of its pair of ranks. Between two pools a rank sends or receives.
MemoryPart refit_messages(const RunConfig& config, const RolloutPrediction& rollout) {
  constexpr Bytes kMost{std::int64_t{64} << 20};
  const RefitSplit split = refit_split(config);
  const ModelConfig& model = config.model;
  const Bytes largest{std::max(model.vocab, model.ffn) * model.hidden * size_of(config.numerics.precision)};
  const Bytes one =
      std::min(split.pair(replica_weights(config, rollout.at_once)), std::max(kMost, largest / split.parts));
  const int messages = split.is_there ? 0 : config.reinforcement.rollout.own_ranks() ? 1 : 2;
  return {"refit messages", one * messages, Category::communication};
}

}  // namespace

bool is_own_step(const RunConfig& config) {
  const auto own = [](std::string_view name) { return name == "plumbline"; };
  return own(config.machine.software) && own(config.reinforcement.rollout.software);
}

MemoryParts own_phase_memory(const RunConfig& config, const RolloutPrediction& rollout,
                             const std::vector<TrainingModel>& models, PhaseKind kind,
                             const TrainingModel& active) {
  const RolloutConfig& of = config.reinforcement.rollout;
  const bool offloads = of.placement == RolloutPlacement::colocated;
  const bool refits = kind == PhaseKind::refit;
  const bool generates = refits || kind == PhaseKind::rollout;
  const std::vector<GenerationMemory>& generating = rollout.at_once.ranks;
  MemoryParts fullest;
  const auto keep = [&](MemoryParts parts) {
    if (refits) parts.push_back(refit_messages(config, rollout));
    if (fullest.empty() || sum_of(parts) > sum_of(fullest)) fullest = std::move(parts);
  };
  if (of.own_ranks() && refits)
    for (const GenerationMemory& rank : generating) keep(with_rollout(rank, kind, {}));
  const std::size_t stages = active.memory.ranks.size();
  for (std::size_t i = 0; i < stages; ++i) {
    MemoryParts parts;
    for (const TrainingModel& model : models) {
      const ModelOnRank here(model, i);
      const bool works = &model == &active && kind != PhaseKind::rollout;
      here.add_held(offloads, works, kind, parts);
      if (!works || refits) continue;
      const Bytes passing =
          kind == PhaseKind::scoring ? here.scoring() : here.rank.peak.total() - here.rank.held.total();
      parts.push_back({"activations", passing, Category::activations});
    }
    if (of.own_ranks() || !generates) {
      keep(std::move(parts));
      continue;
    }
    // Pipeline coordinates are stretches of the ranks; those of both sides that share some.
    for (std::size_t j = 0; j < generating.size(); ++j)
      if (i * generating.size() < (j + 1) * stages && j * stages < (i + 1) * generating.size())
        keep(with_rollout(generating[j], kind, parts));
  }
  return fullest;
}

}  // namespace plumbline
