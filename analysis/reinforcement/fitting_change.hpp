// Advice for a step of reinforcement learning that does not fit.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "analysis/hardware/hardware.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// The first of these single changes with which the step fits, as "KEY: VALUE" with its predicted slowdown;
/// nothing if none does: offload while others work, a smaller share for the engine, smaller micro-batches,
/// recomputation, ZeRO, more tensor ranks. `make` as in predict_reinforcement().
std::optional<std::string> fitting_change(const RunConfig& config, const HardwareProfile& hardware,
                                          const std::function<RepeatedSchedule(const RunConfig&)>& make);

}  // namespace plumbline
