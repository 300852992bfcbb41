// Activity alongside one rank's computation: collectives on the lanes of their groups, copies on that of the
// host.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "core/base/units.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

/// Whose lane it is; nothing: that of copies to and from the memory of the host.
using LaneGroup = std::optional<Group>;
constexpr std::size_t kLanes = kGroups + 1;

/// Its place among kLanes.
inline std::size_t place_of(LaneGroup lane) {
  return lane ? static_cast<std::size_t>(*lane) : kLanes - 1;
}
inline LaneGroup lane_at(std::size_t place) {
  return place + 1 < kLanes ? LaneGroup(static_cast<Group>(place)) : std::nullopt;
}
/// "tensor"; "host".
inline std::string_view lane_name(LaneGroup lane) {
  return lane ? name_of(*lane) : "host";
}

/// One collective over `group`, a message of its ring, or a copy. The rank waits for its last `waited`
/// seconds; the rest is hidden behind computation. Plain memory, so that it can travel.
struct LaneSpan {
  LaneGroup group = Group::tensor;
  Seconds start;  // it began: its lane was free, and every member had come
  Seconds end;
  Seconds waited;
};

}  // namespace plumbline
