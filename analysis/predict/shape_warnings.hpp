// Shapes that cost more than their FLOPs, which a planner may not have meant.
#pragma once

#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// One line each: heads and vocabularies that are off the tiles of tensor cores, attention with small heads,
/// micro-batches that fill no accelerator, tensor parallelism over a slow link. Of accelerators alone.
std::vector<std::string> shape_warnings(const RunConfig& config, const HardwareProfile& hardware);

}  // namespace plumbline
