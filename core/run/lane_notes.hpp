// Notes of a rank's transports on a step: when collectives and copies ran, and how long the rank waited for
// each.
#pragma once

#include <algorithm>
#include <vector>

#include "core/run/step_observer.hpp"
#include "core/trace/lane_span.hpp"

namespace plumbline {

/// Notes of one step; times are of the ranks' common clock.
class LaneNotes final : public StepObserver {
 public:
  /// `waited` may be longer than the span, if the rank also waited for others to arrive.
  void add(LaneSpan span) {
    span.waited = std::clamp(span.waited, Seconds{0}, std::max(Seconds{0}, span.end - span.start));
    spans_.push_back(span);
  }
  void step_begins(int /*index*/) override { spans_.clear(); }
  void add_lanes(Seconds origin, std::vector<LaneSpan>& lanes) override {
    for (const LaneSpan& span : spans_)
      lanes.push_back({span.group, span.start - origin, span.end - origin, span.waited});
  }

 private:
  std::vector<LaneSpan> spans_;
};

}  // namespace plumbline
