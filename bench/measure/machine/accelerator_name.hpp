// Known accelerator that a GPU is.
#pragma once

#include <string>

#include "core/base/units.hpp"

namespace plumbline {

/// The preset (analysis/hardware/nvidia.json) for a device as CUDA names it, "NVIDIA H200" with its memory.
/// Among the presets whose model the name contains, it is the one whose form factor the name contains, too,
/// and whose memory is nearest. Empty when the model is not known.
std::string accelerator_of(const std::string& device_name, Bytes memory);

}  // namespace plumbline
