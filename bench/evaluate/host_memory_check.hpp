// The check, before anything is started, that the memory of this host has room for the ranks that it takes.
#pragma once

#include <optional>
#include <string>

#include "core/base/units.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Ranks that one host takes: `count` from `first` on; fewer where the configuration has no more.
struct RanksOfHost {
  int count = 1;
  int first = 0;
};

/// Upper bound of host memory that these ranks allocate: tensors of backend cpu, up to memory_budget, and
/// offloaded ones. Emulated devices have no memory.
Bytes host_memory_of(const RunConfig& config, RanksOfHost ranks);

/// Why these ranks cannot run here: one line. Nothing when they can, or when nothing is known of the host's
/// memory.
std::optional<std::string> why_not_in_host_memory(const RunConfig& config, RanksOfHost ranks,
                                                  Bytes available);

/// Throws OutOfMemory with that line, for the memory available now.
void check_host_memory(const RunConfig& config, RanksOfHost ranks);

}  // namespace plumbline
