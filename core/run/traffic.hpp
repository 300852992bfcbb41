// Counters of the data that a rank hands to its transport.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/units.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

/// Collectives of one group, counted where they were asked for: whole buffers, before any algorithm splits
/// them.
struct GroupTraffic {
  std::int64_t calls = 0;
  Bytes all_reduced;       // of the reduced buffers
  Bytes all_gathered;      // of the gathered outputs
  Bytes reduce_scattered;  // of the inputs; a reduction to one member counts as a piece of it
  Bytes broadcast;         // of the buffers
  Bytes exchanged{};       // all to all: of the inputs, a member's own piece included

  /// One call that moved `bytes`; a call without any is none.
  void add(Bytes GroupTraffic::*kind, Bytes bytes) {
    if (bytes.value == 0) return;
    ++calls;
    this->*kind += bytes;
  }
  friend bool operator==(const GroupTraffic&, const GroupTraffic&) = default;
};

/// Data that this rank handed to the transport. A group of one moves nothing and is not counted.
struct Traffic {
  std::int64_t messages_sent = 0;
  Bytes point_to_point_sent;
  std::array<GroupTraffic, kGroups> groups{};
  const GroupTraffic& of(Group group) const { return groups[static_cast<std::size_t>(group)]; }
  GroupTraffic& of(Group group) { return groups[static_cast<std::size_t>(group)]; }
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

}  // namespace plumbline
