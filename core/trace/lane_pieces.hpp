// The lanes of a long step in few spans.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "core/trace/lane_span.hpp"

namespace plumbline {

/// Approximate limit on the pieces of a lane: spans that lie together within this part of the step are
/// merged, however many a step has.
constexpr double kLanePieces = 4000;

/// Gathers the spans of one rank.
class LanePieces {
 public:
  /// Spans that lie together within `shortest` are merged; 0: every span stays.
  explicit LanePieces(Seconds shortest);
  void add(const LaneSpan& span);
  /// In order of start.
  std::vector<LaneSpan> take();

 private:
  Seconds shortest_;
  std::array<std::size_t, kLanes> last_{};  // of each lane
  std::vector<LaneSpan> spans_;
};

}  // namespace plumbline
