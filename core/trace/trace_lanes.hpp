// Layout of a trace for trace viewers: events that may share a track, and the track of each message.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/trace/lane_span.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

/// Slices of a viewer's track must not overlap. Lane 0 of a rank holds its actions, further lanes events that
/// run together with them, and the lanes from `first_message_lane` on its messages.
struct RankLanes {
  std::vector<int> lane_of_event;
  int first_message_lane = 1;
  int lanes = 1;
};
RankLanes lanes_of(const std::vector<Event>& events);

/// Tracks of the collectives of vocabulary parallelism: one per kind, more where those of a kind are in
/// progress together.
struct CollectiveLanes {
  std::vector<int> lane_of_event;
  std::vector<VocabularyCall> call_of_lane;
};
CollectiveLanes lanes_of(const std::vector<CollectiveEvent>& events);

/// The part of `event`'s slice in which the rank waits for it; empty (no length): none.
struct WaitSlice {
  Seconds start;
  Seconds end;
};
WaitSlice wait_of(const CollectiveEvent& event);
/// The end of the collective.
WaitSlice wait_of(const LaneSpan& span);
/// The lanes that have some, each once, groups in the order of Group and the host last: a track each.
std::vector<LaneGroup> groups_of(const std::vector<LaneSpan>& spans);
/// "tensor group"; "copies to and from the host".
std::string title_of(LaneGroup lane);
/// The category of its slices: "collective"; "copy".
const char* kind_of(LaneGroup lane);

/// A result that one rank hands to another, from the SEND (or, in a schedule without explicit transfers, from
/// the action that made it) to the action that uses it.
struct Message {
  std::size_t from_rank = 0;
  std::size_t from_event = 0;
  std::size_t to_rank = 0;
  std::size_t to_event = 0;
};
/// In order of the receiving rank and event.
std::vector<Message> messages_of(const Trace& trace);

}  // namespace plumbline
