// Models that score responses: forwards without backwards.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/reinforcement/experience.hpp"
#include "bench/training/reinforcement/movable_states.hpp"
#include "bench/training/weights/weights.hpp"
#include "core/run/communicator.hpp"

namespace plumbline::reinforcement {

/// A reference or a reward model: parameters whole on every replica, without gradients.
struct ScoringModel {
  /// `of`: the model's training step. `scratch` of attention is another model's, or none: its own. Colocated,
  /// parameters are on the host. All references must outlive it. Throws OutOfMemory.
  ScoringModel(const RunConfig& of, const training::StageMap& placement, Operators& operators,
               Communicator& messages, Arena& arena, training::HostSide* host, std::optional<Matrix> scratch);
  void load(const training::SliceReader& weights);

  const RunConfig config;
  Seconds communication;
  training::RankResources resources;
  MovableStates states;
};

/// Rows of a scalar head: where an id is the next one, or its own.
enum class ScoredRows : std::uint8_t { before_ids, at_ids };

/// Log-probabilities of every response's ids under `model` or, with a scalar head, values. `model` has one
/// stage on every pipeline rank. All ranks get the same; emulated: 0. Replicas take micro-batches in turn.
/// Nothing that it allocates stays. Collective over the world; `control` carries values between hosts'
/// memories.
std::vector<std::vector<float>> score(training::RankResources& model, std::span<const Response> responses,
                                      Communicator& control, ScoredRows rows = ScoredRows::before_ids);

}  // namespace plumbline::reinforcement
