// The kinds of actions that compute on a stage, and the costs that the time model fills for each.
#pragma once

#include "analysis/simulate/costs.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Communication that a stage's actions wait for, part of their cost.
struct PassCommunication {
  Seconds tensor;  // collectives of the tensor group
  Seconds data;    // ZeRO-2 and 3: gathers and scatters that computation does not hide
  Seconds copies;  // between device and host, likewise
  /// Those of vocabulary parallelism, where nothing overlaps with computation; elsewhere see
  /// costs.vocabulary.
  VocabularySeconds vocabulary{};
};
struct StageCommunication {
  PassCommunication forward;
  PassCommunication backward;
  PassCommunication backward_input;
  PassCommunication backward_weight;
  PassCommunication teacher_forward;
  PassCommunication vocab_forward;
  PassCommunication vocab_backward;
  PassCommunication input_forward;
  PassCommunication input_backward;
  /// Exchanges of the first forwards and last backwards, which no other micro-batch hides; part of
  /// StageCosts::first_forward and last_backward.
  Seconds lone_forward{};
  Seconds lone_backward{};
};

/// A kind of action that computes on a stage.
struct Phase {
  ActionType type;
  const char* name;
  Seconds StageCosts::*cost;
  PassCommunication StageCommunication::*communication;
};
inline constexpr Phase kPhases[] = {
    {ActionType::forward, "forward", &StageCosts::forward, &StageCommunication::forward},
    {ActionType::backward, "backward", &StageCosts::backward, &StageCommunication::backward},
    {ActionType::backward_input, "backward input", &StageCosts::backward_input,
     &StageCommunication::backward_input},
    {ActionType::backward_weight, "backward weight", &StageCosts::backward_weight,
     &StageCommunication::backward_weight},
    {ActionType::vocab_forward, "scores", &StageCosts::vocab_forward, &StageCommunication::vocab_forward},
    {ActionType::vocab_backward, "scores backward", &StageCosts::vocab_backward,
     &StageCommunication::vocab_backward},
    {ActionType::input_forward, "input layer", &StageCosts::input_forward,
     &StageCommunication::input_forward},
    {ActionType::input_backward, "input layer backward", &StageCosts::input_backward,
     &StageCommunication::input_backward},
};

}  // namespace plumbline
