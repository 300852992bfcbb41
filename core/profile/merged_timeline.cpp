#include "core/profile/merged_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/output_json.hpp"
#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

void check_order(const MergedTimeline& timeline) {
  std::map<Hop, std::pair<const Event*, int>> sends;
  for (const RankActivities& rank : timeline.ranks) {
    for (const Event& event : rank.actions) {
      if (is_send(event.action.type)) sends[hop_of_transfer(event.action)] = {&event, rank.pipeline_rank};
    }
  }
  for (const RankActivities& rank : timeline.ranks) {
    for (const Event& event : rank.actions) {
      if (!is_receive(event.action.type)) continue;
      const auto found = sends.find(hop_of_transfer(event.action));
      if (found == sends.end()) continue;
      const auto& [send, sender] = found->second;
      if (event.end + timeline.error >= send->start) continue;
      throw Error(fmt::format(
          "timelines cannot be merged: {} on rank {} ends {:.1f} us before {} on rank {} begins, and the "
          "clocks' error bound is {:.1f} us",
          to_string(event.action), rank.pipeline_rank, (send->start - event.end).value * 1e6,
          to_string(send->action), sender, timeline.error.value * 1e6));
    }
  }
}

void shift(std::vector<DeviceActivity>& activities, const AlignedClock& clock) {
  for (DeviceActivity& activity : activities) {
    activity.start = clock.to_common(activity.start);
    activity.end = clock.to_common(activity.end);
  }
}

nlohmann::ordered_json span(const std::string& name, int process, std::int64_t track, Seconds start,
                            Seconds end, Seconds origin) {
  return {{"name", name},
          {"ph", "X"},
          {"pid", process},
          {"tid", track},
          {"ts", (start - origin).value * 1e6},
          {"dur", (end - start).value * 1e6}};
}

}  // namespace

AlignedClock::AlignedClock(const ClockReading& first, const ClockReading& last)
    : first_(first), error_(std::max(first.error, last.error)) {
  if (last.at <= first.at) {
    throw Error("clocks cannot be aligned: the second reading was not taken after the first");
  }
  drift_ = (last.offset - first.offset) / (last.at - first.at);
}

Seconds AlignedClock::to_common(Seconds own) const {
  return own + first_.offset + (own - first_.at) * drift_;
}

MergedTimeline merge(std::vector<RankActivities> ranks, const Schedule& schedule) {
  if (static_cast<int>(ranks.size()) != schedule.ranks) {
    throw Error(fmt::format("timelines of {} ranks, expected {}", ranks.size(), schedule.ranks));
  }
  MergedTimeline timeline;
  timeline.ranks = std::move(ranks);
  Seconds worst;
  Seconds second;
  for (RankActivities& rank : timeline.ranks) {
    const AlignedClock clock(rank.first, rank.last);
    for (Event& event : rank.actions) {
      event.start = clock.to_common(event.start);
      event.end = clock.to_common(event.end);
    }
    for (ActionActivities& action : rank.activities.actions) shift(action.activities, clock);
    shift(rank.activities.outside, clock);
    if (clock.error() > worst) {
      second = worst;
      worst = clock.error();
    } else {
      second = std::max(second, clock.error());
    }
  }
  timeline.error = worst + second;  // of the two ranks that may be furthest apart
  check_order(timeline);
  return timeline;
}

std::string to_trace_events(const MergedTimeline& timeline) {
  Seconds origin{std::numeric_limits<double>::infinity()};
  for (const RankActivities& rank : timeline.ranks) {
    for (const Event& event : rank.actions) origin = std::min(origin, event.start);
  }
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  constexpr std::int64_t kActionTrack = -1;
  for (const RankActivities& rank : timeline.ranks) {
    const int process = rank.pipeline_rank;
    events.push_back({{"name", "process_name"},
                      {"ph", "M"},
                      {"pid", process},
                      {"args", {{"name", fmt::format("pipeline rank {}", process)}}}});
    for (const Event& event : rank.actions) {
      events.push_back(span(to_string(event.action), process, kActionTrack, event.start, event.end, origin));
    }
    const auto add = [&](const DeviceActivity& activity, const std::string& action) {
      const std::string name = activity.kind == ActivityKind::kernel ? activity.name
                               : activity.kind == ActivityKind::copy ? "copy"
                                                                     : "set";
      nlohmann::ordered_json event =
          span(name, process, activity.stream, activity.start, activity.end, origin);
      event["args"] = {{"action", action}, {"bytes", activity.bytes.value}};
      events.push_back(std::move(event));
    };
    for (const ActionActivities& action : rank.activities.actions) {
      for (const DeviceActivity& activity : action.activities) add(activity, to_string(action.action));
    }
    for (const DeviceActivity& activity : rank.activities.outside) add(activity, "");
  }
  nlohmann::ordered_json file;
  file["traceEvents"] = std::move(events);
  file["otherData"] = {{"clock_error_us", timeline.error.value * 1e6}};
  return output_json(file, -1);
}

}  // namespace plumbline
