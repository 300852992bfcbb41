// Multiprocessors of a card that NCCL's kernels leave to the computation of plumbline's own step.
#pragma once

#include <optional>
#include <string>

#include "analysis/hardware/hardware.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// The reason why backend cuda would refuse the configuration on this card (kernels that wait for other ranks
/// hold too much of it), or nothing.
std::optional<std::string> why_too_few_multiprocessors(const RunConfig& config,
                                                       const HardwareProfile& hardware);

}  // namespace plumbline
