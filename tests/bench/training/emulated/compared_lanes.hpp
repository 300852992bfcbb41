// Predicted lanes of a rank against those that its emulated communicator has noted.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/trace/lane_span.hpp"

namespace plumbline::training {

/// One lane: number of spans, their total and exposed time, and the largest difference of a begin or end.
struct ComparedLane {
  LaneGroup group;
  std::size_t predicted = 0, measured = 0;
  Seconds all, predicted_wait, measured_wait;
  Seconds apart;
};

inline std::vector<LaneSpan> of_group(const std::vector<LaneSpan>& spans, LaneGroup group) {
  std::vector<LaneSpan> found;
  for (const LaneSpan& span : spans) {
    if (span.group == group) found.push_back(span);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const LaneSpan& a, const LaneSpan& b) { return a.start < b.start; });
  return found;
}

/// Every lane of either side. Expects equally many spans on both, in one order.
inline std::vector<ComparedLane> compare_lanes(const std::vector<LaneSpan>& predicted,
                                               const std::vector<LaneSpan>& measured) {
  std::vector<ComparedLane> lanes;
  for (std::size_t place = 0; place < kLanes; ++place) {
    const std::vector<LaneSpan> a = of_group(predicted, lane_at(place));
    const std::vector<LaneSpan> b = of_group(measured, lane_at(place));
    if (a.empty() && b.empty()) continue;
    ComparedLane lane{lane_at(place), a.size(), b.size(), {}, {}, {}, {}};
    for (const LaneSpan& span : a) lane.predicted_wait += span.waited;
    for (const LaneSpan& span : b) {
      lane.measured_wait += span.waited;
      lane.all += span.end - span.start;
    }
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      lane.apart.value = std::max({lane.apart.value, std::abs((a[i].start - b[i].start).value),
                                   std::abs((a[i].end - b[i].end).value)});
    }
    lanes.push_back(lane);
  }
  return lanes;
}

inline std::string to_string(const ComparedLane& lane) {
  return fmt::format(
      "  {:12} {:4} spans of {:9.1f} us, waited for {:9.1f} (predicted {} and {:9.1f}), apart by {:.1f}",
      lane_name(lane.group), lane.measured, 1e6 * lane.all.value, 1e6 * lane.measured_wait.value,
      lane.predicted, 1e6 * lane.predicted_wait.value, 1e6 * lane.apart.value);
}

}  // namespace plumbline::training
