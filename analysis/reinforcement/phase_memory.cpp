#include "analysis/reinforcement/phase_memory.hpp"

#include <algorithm>
#include <utility>

#include "analysis/reinforcement/rl_framework.hpp"
#include "analysis/reinforcement/scoring.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

const GenerationMemory& fullest_of(const RolloutPrediction& rollout) {
  return rollout.at_once.ranks[static_cast<std::size_t>(rollout.at_once.peak_rank)];
}

void add(MemoryParts more, MemoryParts& parts) {
  for (MemoryPart& part : more) parts.push_back(std::move(part));
}

MemoryParts parameters_of(const TrainingModel& model, const RankMemory& rank) {
  return {{model.name + " parameters", rank.held[Category::parameters]}};
}

MemoryParts states_of(const TrainingModel& model, const RankMemory& rank) {
  MemoryParts parts = parameters_of(model, rank);
  if (!model.trained) return parts;
  parts.push_back({model.name + " gradients", rank.held[Category::gradients], Category::gradients});
  parts.push_back({model.name + " optimizer", rank.held[Category::optimizer], Category::optimizer});
  return parts;
}

/// Tensors of a resident model in a phase that updates another one, or none.
MemoryParts waiting(const TrainingModel& model, const RankMemory& rank, const FrameworkReleases& gone) {
  if (!model.trained && gone.untrained) return {};
  MemoryParts parts = states_of(model, rank);
  if (gone.gradients)
    std::erase_if(parts, [](const MemoryPart& part) { return part.category == Category::gradients; });
  return parts;
}

/// Tensors of the model that works in the phase, where it has the device to itself.
MemoryParts working(const TrainingModel& model, const RankMemory& rank, PhaseKind kind) {
  return kind == PhaseKind::update ? states_of(model, rank) : parameters_of(model, rank);
}

MemoryPart activations(const TrainingModel& model, const RankMemory& rank, PhaseKind kind) {
  const Bytes bytes = kind == PhaseKind::scoring ? scoring_workspace(model.config, rank.pipeline_rank)
                                                 : rank.peak.total() - sum_of(states_of(model, rank));
  return {"activations", bytes, Category::activations};
}

/// The rollout's side on a rank that trains.
void add_rollout(const RunConfig& config, const RolloutPrediction& rollout, PhaseKind kind,
                 MemoryParts& parts) {
  const RolloutConfig& of = config.reinforcement.rollout;
  if (of.own_ranks()) return;
  // plumbline's own copy of the weights is freed behind its rollout.
  const bool stays = of.placement == RolloutPlacement::resident && is_inference_engine(of.software) &&
                     !framework_releases(config).engine;
  if (stays || kind == PhaseKind::rollout) return add(rollout_memory(config, rollout), parts);
  if (kind == PhaseKind::refit) parts.push_back({"rollout parameters", fullest_of(rollout).parameters});
}

}  // namespace

Bytes sum_of(const MemoryParts& parts) {
  Bytes sum;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

MemoryParts rollout_memory(const RunConfig& config, const RolloutPrediction& rollout) {
  const GenerationMemory& rank = fullest_of(rollout);
  const RunConfig batch = rollout_config(config);
  const auto tokens = static_cast<double>(batch.batch.micro_batch_size * batch.batch.seq_length);
  const double cache =
      static_cast<double>(rank.cache.value) * static_cast<double>(rollout.cache_tokens) / tokens;
  return {{"rollout parameters", rank.parameters},
          {"rollout workspace", rank.workspace, Category::workspace},
          {"KV cache", {static_cast<std::int64_t>(cache)}, Category::activations}};
}

MemoryParts phase_memory(const RunConfig& config, const RolloutPrediction& rollout,
                         const std::vector<TrainingModel>& models, PhaseKind kind,
                         const TrainingModel& active) {
  const bool offloads = config.reinforcement.rollout.placement == RolloutPlacement::colocated;
  const FrameworkReleases gone = framework_releases(config);
  MemoryParts fullest;
  for (std::size_t i = 0; i < active.memory.ranks.size(); ++i) {
    MemoryParts parts;
    for (const TrainingModel& model : models) {
      const RankMemory& rank = model.memory.ranks[i];
      const bool works = &model == &active && kind != PhaseKind::rollout;
      const bool whole = works && (kind == PhaseKind::update || !model.trained);
      if (!offloads)
        add(whole ? states_of(model, rank) : waiting(model, rank, gone), parts);
      else if (works)
        add(working(model, rank, kind), parts);
      if (works && kind != PhaseKind::refit) parts.push_back(activations(model, rank, kind));
    }
    add_rollout(config, rollout, kind, parts);
    if (fullest.empty() || sum_of(parts) > sum_of(fullest)) fullest = std::move(parts);
  }
  return fullest;
}

OffloadedModel offloaded(const TrainingModel& model) {
  OffloadedModel most;
  for (const RankMemory& rank : model.memory.ranks) {
    const auto of_training = [&](Category category) { return model.trained ? rank.held[category] : Bytes{}; };
    const OffloadedModel here = {rank.held[Category::parameters], of_training(Category::optimizer),
                                 of_training(Category::gradients)};
    if (here.total() > most.total()) most = here;
  }
  return most;
}

}  // namespace plumbline
