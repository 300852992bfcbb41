// Costs of each action of a schedule: the simulator's input besides the schedule.
#pragma once

#include <optional>
#include <vector>

#include "core/base/units.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/collective_trace.hpp"

namespace plumbline {

/// Times of one stage for one micro-batch. `backward` is the merged one; `backward_input` and
/// `backward_weight` are its parts. A time that a schedule does not use stays 0.
struct StageCosts {
  Seconds forward{};
  Seconds backward{};
  Seconds backward_input{};
  Seconds backward_weight{};
  Seconds teacher_forward{};
  Seconds vocab_forward{};
  Seconds vocab_backward{};
  Seconds input_forward{};
  Seconds input_backward{};
  /// On top of the first F of the step on this stage: waiting for parameters that are gathered once per step.
  Seconds first_forward{};
  /// On top of the last B or W of the step on this stage: work done once when its gradients are final.
  Seconds last_backward{};
  /// On top of the times of Costs, for the ARG, ARE and OPT that name this stage.
  Seconds reduce_gradients{};
  Seconds reduce_embedding{};
  Seconds optimizer{};
};

/// Time of an overlapped pair of these actions, relative to the sum of the two.
struct PairCosts {
  ActionType first = ActionType::forward;
  int first_stage = 0;
  ActionType second = ActionType::backward;
  int second_stage = 0;
  double factor = 1;
};

/// A transfer between two ranks: it occupies the link for `transfer` and arrives `latency` after that.
/// Between stages of one rank it is free.
struct LinkCosts {
  Seconds transfer{};
  Seconds latency{};
  /// The same for a teacher's activations where they travel by themselves; empty: as `transfer`.
  std::optional<Seconds> teacher_transfer{};
};

/// Times of the collectives of vocabulary parallelism during the computation, each on a lane of its own
/// (arXiv:2411.05288; bench/training/vocabulary.md). In the order in which a micro-batch meets them, except
/// the embedding's.
struct VocabularyCollectiveTimes {
  Seconds hidden{};      // C0: from the last stage's F to S on all other ranks
  Seconds statistics{};  // C1: from the last S; then T, or C2 with one barrier
  Seconds gradient{};    // C2: from the last T, then the last stage's backward; with one barrier also T
  Seconds embedding{};   // I1: from the last IF to the first stage's F
  Seconds embedding_gradient{};  // I2: from the first stage's backward to IB

  /// By VocabularyCall (core/trace/collective_trace.hpp).
  VocabularySeconds all() const { return {hidden, statistics, gradient, embedding, embedding_gradient}; }
};

/// The LinkCosts it is hold between ranks of one node.
struct Costs : LinkCosts {
  std::vector<StageCosts> stages;  // one per stage of the schedule
  /// Neighbouring pipeline ranks that share a node; 0: all of them. Between nodes `between_nodes` holds.
  int ranks_per_node = 0;
  LinkCosts between_nodes{};
  /// Slowdown factor of each pipeline rank's messages on their link; empty: 1.
  std::vector<double> slow_links{};
  /// Part of a transfer that also occupies the receiving rank's processor (a CPU copies; a GPU does not).
  Seconds receive_busy{};
  VocabularyCollectiveTimes vocabulary;
  Seconds reduce_gradients{};  // reduction left after the last backward, per rank
  Seconds reduce_embedding{};  // tied embeddings, first and last rank
  Seconds optimizer{};
  Seconds step_overhead{};
  /// Time of an overlapped pair (F&B) relative to the sum of its two actions, where `pairs` does not have it.
  double overlap_factor = 1.0;
  std::vector<PairCosts> pairs{};
  /// Overlapped pairs do not overlap: their actions run one after the other, the first one first.
  bool pairs_in_turn = false;
  /// A stage's next result waits until the receiver has taken the previous one (core/run/executor.hpp). Only
  /// for schedules with explicit transfers.
  bool one_send_buffer = false;
  /// Processors shared by all ranks, 0 = one each. Ranks are bound to them round robin, and the busy ones of
  /// a processor run slower in proportion. `processes_per_rank` busy processes stand behind every pipeline
  /// rank (tensor × data ranks).
  int processors = 0;
  int processes_per_rank = 1;
};

}  // namespace plumbline
