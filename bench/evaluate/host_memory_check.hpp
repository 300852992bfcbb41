// Whether the memory of this host has room for the ranks that it takes, before anything is started.
#pragma once

#include <optional>
#include <string>

#include "core/base/units.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// The most bytes of host memory that the first `ranks` ranks allocate: tensors of backend cpu, up to
/// memory_budget, and offloaded ones; of all ranks where there are fewer. Emulated devices have no memory.
Bytes host_memory_of(const RunConfig& config, int ranks);

/// Why the first `ranks` ranks, which this host takes, cannot run: one line. Nothing when they can, or when nothing is
/// known of the host's memory.
std::optional<std::string> why_not_in_host_memory(const RunConfig& config, int ranks, Bytes available);

/// Throws OutOfMemory with that line, for what is available now.
void check_host_memory(const RunConfig& config, int ranks);

}  // namespace plumbline
