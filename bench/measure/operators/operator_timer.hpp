// Times of one call: with empty caches, and one after another.
#pragma once

#include <functional>

#include "bench/record/operator_row.hpp"

namespace plumbline {

/// nvbench's two measurements. Samples are taken until the 95 % interval of their median is within 2 % or
/// `limit_s` is over. The first call is not counted.
class OperatorTimer {
 public:
  virtual ~OperatorTimer() = default;

  /// Single calls; caches are emptied before each.
  virtual BenchedTime isolated(const std::function<void()>& call, double limit_s) = 0;
  /// Blocks of calls without a pause.
  virtual BenchedTime batched(const std::function<void()>& call, double limit_s) = 0;
};

/// Half of the interval's width, relative to the median, at which sampling ends.
inline constexpr double kNarrowInterval = 0.02;

}  // namespace plumbline
