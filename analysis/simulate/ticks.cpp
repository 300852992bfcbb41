#include "analysis/simulate/ticks.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr double kMostSeconds = static_cast<double>(kMostTicks) / kTicksPerSecond;

}  // namespace

Ticks ticks_of(Seconds seconds, const char* what) {
  if (!std::isfinite(seconds.value) || seconds.value < 0) {
    throw InputError(
        fmt::format("costs: {} is {} s, expected a finite number of at least 0", what, seconds.value));
  }
  if (seconds.value >= kMostSeconds) {
    throw InputError(fmt::format("costs: {} is {:.4g} s, expected less than {:.4g} s (53 days)", what,
                                 seconds.value, kMostSeconds));
  }
  return std::llround(seconds.value * kTicksPerSecond);
}

void check_length(Ticks end) {
  if (end >= 0 && end < kMostTicks) return;
  throw InputError(
      fmt::format("costs: the step takes {:.4g} s (53 days) or more; expected less: make the actions shorter "
                  "or their number smaller",
                  kMostSeconds));
}

}  // namespace plumbline
