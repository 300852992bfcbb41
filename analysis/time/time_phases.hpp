// Where the time model puts what it finds out about each kind of action; for time_model.cpp only.
#pragma once

#include "analysis/time/time_model.hpp"

namespace plumbline {

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
