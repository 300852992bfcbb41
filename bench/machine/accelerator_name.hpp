// Which of the accelerators that are known a GPU is.
#pragma once

#include <string>

#include "core/base/units.hpp"

namespace plumbline {

/// The preset (analysis/hardware/clusters.json) for a device as CUDA names it, "NVIDIA H200" with its memory:
/// of those whose model the name contains, the one whose form factor it contains, too, and whose memory is
/// nearest. Empty when the model is not known.
std::string accelerator_of(const std::string& device_name, Bytes memory);

}  // namespace plumbline
