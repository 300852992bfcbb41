#include "core/profile/activity.hpp"

#include <algorithm>
#include <unordered_map>

namespace plumbline {

Seconds ActionActivities::start() const {
  return activities.empty() ? Seconds{} : activities.front().start;
}

Seconds ActionActivities::end() const {
  Seconds last;
  for (const DeviceActivity& activity : activities) last = std::max(last, activity.end);
  return last;
}

Seconds ActionActivities::busy() const {
  Seconds busy;
  Seconds covered = start();
  for (const DeviceActivity& activity : activities) {
    const Seconds from = std::max(activity.start, covered);
    if (activity.end > from) busy += activity.end - from;
    covered = std::max(covered, activity.end);
  }
  return busy;
}

Bytes ActionActivities::copied() const {
  Bytes bytes;
  for (const DeviceActivity& activity : activities) {
    if (activity.kind == ActivityKind::copy) bytes += activity.bytes;
  }
  return bytes;
}

AttributedActivities attribute(const RecordedActivities& recorded, const std::vector<ActionWindow>& windows) {
  std::unordered_map<std::uint64_t, std::size_t> window_of_number;
  for (std::size_t i = 0; i < windows.size(); ++i) window_of_number.emplace(windows[i].external, i);
  std::unordered_map<std::uint32_t, std::size_t> window_of_call;
  for (const ExternalLink& link : recorded.links) {
    const auto found = window_of_number.find(link.external);
    if (found != window_of_number.end()) window_of_call.emplace(link.correlation, found->second);
  }
  for (const LaunchCall& call : recorded.calls) {
    if (window_of_call.count(call.correlation) != 0) continue;
    // The last window that had begun by then, if it had not ended.
    auto after =
        std::upper_bound(windows.begin(), windows.end(), call.start,
                         [](Seconds time, const ActionWindow& window) { return time < window.host_start; });
    if (after == windows.begin()) continue;
    --after;
    if (call.start <= after->host_end) {
      window_of_call.emplace(call.correlation, static_cast<std::size_t>(after - windows.begin()));
    }
  }
  AttributedActivities result;
  for (const ActionWindow& window : windows) result.actions.push_back({window.action, {}});
  for (const DeviceActivity& activity : recorded.activities) {
    const auto found = window_of_call.find(activity.correlation);
    auto& list = found == window_of_call.end() ? result.outside : result.actions[found->second].activities;
    list.push_back(activity);
  }
  const auto earlier = [](const DeviceActivity& a, const DeviceActivity& b) { return a.start < b.start; };
  for (ActionActivities& action : result.actions) {
    std::stable_sort(action.activities.begin(), action.activities.end(), earlier);
  }
  std::stable_sort(result.outside.begin(), result.outside.end(), earlier);
  return result;
}

}  // namespace plumbline
