// Keys of a configuration that change nothing, and why.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// A line for each key that is not at its default and changes nothing. Either the configuration's software
/// ignores it, with the source of the trait that decides instead (analysis/hardware), or it needs another key
/// (idle_keys()): "zero_stage: found 1, without effect with software torchtitan (sharded: FSDP2)".
/// Also overflow_note().
std::vector<std::string> keys_without_effect(const RunConfig& config);

/// "overlap_p2p_comm: found true, without effect …" if a prediction of plumbline's own step is the same
/// without. Times always assume receives posted ahead; here no peak of `memory` holds such a receive.
std::optional<std::string> why_receives_change_nothing(const RunConfig& config, const RepeatedSchedule& step,
                                                       const MemoryPrediction& memory);

/// The software with which a key has no effect and the sources, a line each, for the manual.
std::vector<std::string> when_without_effect(std::string_view key);

}  // namespace plumbline
