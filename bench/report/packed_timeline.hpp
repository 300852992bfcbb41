// A timeline as the page's script reads it: columns of little-endian numbers, one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/report/timelines.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// With n events of all ranks one after the other, c events on the critical chain and m changes of memory,
/// the bytes are: double[m] bytes; uint32[n] start, uint32[n] length (ticks), uint32[n] micro-batch,
/// uint32[n] partner (the same action's place in the other timeline, 2^32-1: none), uint32[c] chain,
/// uint32[m] when (2·event: at its peak, 2·event + 1: at its end); uint16[n] stage; uint8[n] type, uint8[m]
/// category, then uint32[l] start, length and waiting of l collectives on their lanes (ticks) and uint8[l] group. `header`: {"tick_s", "ranks": [events of each rank], "chain": c, "memory": m, "lanes": [collectives
/// of each rank]}. With a split
/// vocabulary it has "collectives": for each rank [kind, micro-batch, start, end, begin and end of the wait]
/// of each as one flat list, times in ticks, 0 and 0 for no wait.
struct PackedTimeline {
  OrderedJson header;
  std::vector<std::uint8_t> bytes;
};

/// `other` is what partners are looked for in; nullptr: none. `with_memory` leaves the changes of memory out
/// when false, `with_lanes` the lanes.
PackedTimeline pack(const Timeline& timeline, const Timeline* other, bool with_memory,
                    bool with_lanes = true);

}  // namespace plumbline
