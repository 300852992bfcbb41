#include "core/trace/trace_lanes.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

/// The first lane, from `first` on, whose last slice has ended.
int free_lane(std::vector<Seconds>& ends, const Event& event) {
  for (std::size_t lane = 0; lane < ends.size(); ++lane) {
    if (ends[lane] <= event.start) {
      ends[lane] = event.end;
      return static_cast<int>(lane);
    }
  }
  ends.push_back(event.end);
  return static_cast<int>(ends.size()) - 1;
}

std::uint64_t key(ActionType type, int stage, std::uint32_t microbatch) {
  return static_cast<std::uint64_t>(type) << 48 | static_cast<std::uint64_t>(stage) << 32 | microbatch;
}

struct Place {
  std::size_t rank = 0;
  std::size_t event = 0;
};
using Places = std::unordered_map<std::uint64_t, Place>;

/// Place where the input of `action` was sent or made.
std::optional<Place> source_of(const Places& places, const Action& action) {
  const std::optional<Payload> payload = payload_of(action.type);
  if (!payload || !is_compute(action.type)) return std::nullopt;
  const int from = action.stage - step_of(*payload);
  if (from < 0) return std::nullopt;
  const auto sent = places.find(key(sending(*payload), from, action.microbatch));
  if (sent != places.end()) return sent->second;
  for (const ActionType type : computing(*payload)) {
    const auto made = places.find(key(type, from, action.microbatch));
    if (made != places.end()) return made->second;
  }
  return std::nullopt;
}

}  // namespace

RankLanes lanes_of(const std::vector<Event>& events) {
  RankLanes lanes;
  lanes.lane_of_event.resize(events.size());
  std::vector<Seconds> work_ends(1);
  std::vector<Seconds> message_ends;
  for (std::size_t i = 0; i < events.size(); ++i) {
    auto& ends = is_transfer(events[i].action.type) ? message_ends : work_ends;
    lanes.lane_of_event[i] = free_lane(ends, events[i]);
  }
  lanes.first_message_lane = static_cast<int>(work_ends.size());
  lanes.lanes = lanes.first_message_lane + static_cast<int>(message_ends.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (is_transfer(events[i].action.type)) lanes.lane_of_event[i] += lanes.first_message_lane;
  }
  return lanes;
}

CollectiveLanes lanes_of(const std::vector<CollectiveEvent>& events) {
  CollectiveLanes lanes;
  lanes.lane_of_event.resize(events.size());
  for (const VocabularyCall call : kAllVocabularyCalls) {
    const auto first = static_cast<int>(lanes.call_of_lane.size());
    std::vector<Seconds> ends;
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (events[i].call != call) continue;
      lanes.lane_of_event[i] = first + free_lane(ends, {{}, events[i].start, events[i].end});
    }
    lanes.call_of_lane.resize(lanes.call_of_lane.size() + ends.size(), call);
  }
  return lanes;
}

WaitSlice wait_of(const CollectiveEvent& event) {
  const Seconds start = std::clamp(event.waited_from, event.start, std::max(event.start, event.end));
  return {start, std::clamp(event.waited_from + event.waited, start, std::max(start, event.end))};
}

WaitSlice wait_of(const LaneSpan& span) {
  return {std::clamp(span.end - span.waited, span.start, span.end), span.end};
}

std::vector<LaneGroup> groups_of(const std::vector<LaneSpan>& spans) {
  std::array<bool, kLanes> used{};
  for (const LaneSpan& span : spans) used[place_of(span.group)] = true;
  std::vector<LaneGroup> groups;
  for (std::size_t place = 0; place < kLanes; ++place) {
    if (used[place]) groups.push_back(lane_at(place));
  }
  return groups;
}

std::string title_of(LaneGroup lane) {
  return lane ? std::string(name_of(*lane)).append(" group") : "copies to and from the host";
}

const char* kind_of(LaneGroup lane) {
  return lane ? "collective" : "copy";
}

std::vector<Message> messages_of(const Trace& trace) {
  Places places;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < trace.ranks[rank].size(); ++i) {
      const Action& action = trace.ranks[rank][i].action;
      places.try_emplace(key(action.type, action.stage, action.microbatch), Place{rank, i});
    }
  }
  std::vector<Message> messages;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    for (std::size_t i = 0; i < trace.ranks[rank].size(); ++i) {
      const auto source = source_of(places, trace.ranks[rank][i].action);
      if (source && source->rank != rank) messages.push_back({source->rank, source->event, rank, i});
    }
  }
  return messages;
}

}  // namespace plumbline
