// Labels of communication groups, in the words of Megatron-LM and PyTorch.
#pragma once

#include <string>

#include "core/trace/lane_span.hpp"

namespace plumbline {

/// "TP communication", "EP communication"; "CPU offload copies" for the host's lane.
std::string lane_title(LaneGroup lane);

}  // namespace plumbline
