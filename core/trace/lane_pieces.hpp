// The lanes of a long step in few spans.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "core/trace/lane_span.hpp"

namespace plumbline {

/// Into how many pieces a lane is cut at most, nearly: spans of a lane that lie together within this part of the step
/// are one, however many a step has.
constexpr double kLanePieces = 4000;

/// Gathers the spans of one rank.
class LanePieces {
 public:
  /// What lies together within `shortest` is one span; 0: every span stays.
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
