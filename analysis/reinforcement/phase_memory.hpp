// Memory of the ranks that train in the phases of a step, by which models are on the device.
#pragma once

#include <string>
#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "analysis/reinforcement/rollout_prediction.hpp"
#include "core/base/units.hpp"
#include "core/config/run_config.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline {

/// Tensors of a rank by what they are of: "actor parameters", "KV cache".
struct MemoryPart {
  std::string name;
  Bytes bytes;
  Category category = Category::parameters;
};
using MemoryParts = std::vector<MemoryPart>;
Bytes sum_of(const MemoryParts& parts);

/// A model on the ranks that train.
struct TrainingModel {
  std::string name;
  RunConfig config;         // of an update
  MemoryPrediction memory;  // likewise
  bool trained = true;      // false: has parameters alone
};

enum class PhaseKind { refit, rollout, scoring, update };

/// Weights, cache and workspace of the fullest rank that generates; an engine fills its share with the cache.
MemoryParts rollout_memory(const RunConfig& config, const RolloutPrediction& rollout);

/// Memory of the fullest rank in a phase of `active`. Models that are not active are on the device unless the
/// placement is colocated, which offloads them; so is the rollout's side if it is resident.
MemoryParts phase_memory(const RunConfig& config, const RolloutPrediction& rollout,
                         const std::vector<TrainingModel>& models, PhaseKind kind,
                         const TrainingModel& active);

/// Bytes of a model that go to the host and come back.
struct OffloadedModel {
  Bytes parameters;
  Bytes optimizer;  // of one that is trained
  Bytes gradients;  // likewise: allocated with them, not copied
  Bytes total() const { return parameters + optimizer; }
};
/// Largest of all ranks.
OffloadedModel offloaded(const TrainingModel& model);

}  // namespace plumbline
