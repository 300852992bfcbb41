#include "bench/matrix/matrix_time.hpp"

#include <algorithm>

namespace plumbline {

void MatrixTime::measured(Seconds predicted, Seconds took) {
  left_ = std::max(left_ - predicted, Seconds{});
  predicted_ += predicted;
  took_ += took;
}

bool MatrixTime::has_time_to_repeat(Seconds took) const {
  const Seconds whole = took_ + left_ * std::min(1.0, pace());
  return repeats_ + took <= std::max(whole * kMostForRepeats, kSomeRepeats);
}

}  // namespace plumbline
