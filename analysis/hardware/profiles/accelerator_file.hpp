// An accelerator that somebody describes in a file of their own.
#pragma once

#include <string>
#include <string_view>

#include "analysis/hardware/hardware.hpp"

namespace plumbline {

/// True if a JSON text is such a description (it has "constants") rather than a profile of `calibrate`.
bool describes_accelerator(std::string_view json);

/// The profile of a file {"name", "like", "network", "constants": {NAME: {"value", "source"}}}, with the
/// constants of analysis/hardware/README.md. Missing constants are those of the accelerator that `like`
/// names. Without `like` the file must give memory_bytes, bandwidth and peak_16bit; the rest is
/// h100-sxm-80gb's, but no 8-bit or 4-bit products. HardwareProfile::defaults lists these figures. Parsed as
/// untrusted input. Throws InputError with the line of a figure whose unit cannot be right, or of a peak that
/// looks like one with sparsity ("dense": true alongside its value states that it is dense).
HardwareProfile parse_accelerator(std::string_view json, const std::string& origin);

}  // namespace plumbline
