// A rank's activities as bytes, to be sent to the rank that merges them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/profile/merged_timeline.hpp"

namespace plumbline {

/// CBOR.
std::vector<std::uint8_t> to_bytes(const RankActivities& rank);
/// Throws Error for anything but the output of to_bytes.
RankActivities rank_activities(const std::vector<std::uint8_t>& bytes);

}  // namespace plumbline
