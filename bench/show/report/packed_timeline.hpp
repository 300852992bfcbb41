// A timeline as the page's script reads it: columns of little-endian numbers, one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/show/report/timelines.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// The bytes of n events of all ranks one after the other, c events on the critical chain, m changes of
/// memory and l collectives on their lanes, in this order:
///   double[m]  bytes
///   uint32[n]  start and length (ticks), micro-batch, and partner: the same action's place in the other
///              timeline, 2^32-1: none
///   uint32[c]  chain
///   uint32[m]  when (2·event: at its peak, 2·event + 1: at its end)
///   uint16[n]  stage; then uint8[n] type, uint8[m] category
///   uint32[l]  start, length and waiting of the collectives (ticks); then uint8[l] group
/// `header`: {"tick_s", "ranks": [events of each rank], "chain": c, "memory": m, "lanes": [collectives of
/// each rank]}. With a split vocabulary it has "collectives": for each rank [kind, micro-batch, start, end,
/// begin and end of the wait] of each as one flat list, times in ticks, 0 and 0 for no wait.
struct PackedTimeline {
  OrderedJson header;
  std::vector<std::uint8_t> bytes;
};

/// `other`: timeline to look for partners in; nullptr: none. `with_memory` leaves the changes of memory out
/// when false, `with_lanes` the lanes.
PackedTimeline pack(const Timeline& timeline, const Timeline* other, bool with_memory,
                    bool with_lanes = true);

}  // namespace plumbline
