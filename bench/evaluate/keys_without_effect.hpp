// Keys of a configuration that change nothing, and why.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline {

/// A line for each key that is not at its default and changes nothing: one that the configuration's software does not ask for,
/// with the source of the trait that decides instead (analysis/hardware), or that needs another key (idle_keys()):
/// "zero_stage: found 1, without effect with software torchtitan (sharded: FSDP2)".
std::vector<std::string> keys_without_effect(const RunConfig& config);

/// The software with which a key has no effect and the sources, a line each, for the manual.
std::vector<std::string> when_without_effect(std::string_view key);

}  // namespace plumbline
