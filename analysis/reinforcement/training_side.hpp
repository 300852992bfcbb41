// Models on the ranks that train, with their times: what a step of reinforcement learning takes besides its
// rollout.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/reinforcement/phase_memory.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

struct TimedModel {
  TrainingModel model;
  Prediction update;
  Seconds scoring;  // forwards over all sequences of a step
};

/// Independent of placement and layout of the rollout.
struct TrainingSide {
  TimedModel actor;
  std::optional<TimedModel> reference, reward, critic;
  std::int64_t updates = 1;
};

/// `lengths`: tokens of every response. `make`: the schedule of a configuration.
TrainingSide predict_training_side(const RunConfig& config, std::span<const std::int64_t> lengths,
                                   const HardwareProfile& hardware,
                                   const std::function<RepeatedSchedule(const RunConfig&)>& make);

}  // namespace plumbline
