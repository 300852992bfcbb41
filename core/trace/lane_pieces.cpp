#include "core/trace/lane_pieces.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace plumbline {
namespace {

constexpr std::size_t kNoSpan = std::numeric_limits<std::size_t>::max();

}  // namespace

LanePieces::LanePieces(Seconds shortest) : shortest_(shortest) {
  last_.fill(kNoSpan);
}

void LanePieces::add(const LaneSpan& span) {
  std::size_t& last = last_[place_of(span.group)];
  if (shortest_.value > 0 && last != kNoSpan && span.start >= spans_[last].start &&
      span.end - spans_[last].start <= shortest_) {
    spans_[last].end = std::max(spans_[last].end, span.end);
    spans_[last].waited += span.waited;
    return;
  }
  last = spans_.size();
  spans_.push_back(span);
}

std::vector<LaneSpan> LanePieces::take() {
  std::stable_sort(spans_.begin(), spans_.end(),
                   [](const LaneSpan& a, const LaneSpan& b) { return a.start < b.start; });
  return std::move(spans_);
}

}  // namespace plumbline
