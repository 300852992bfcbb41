// Time inside the simulator, in whole ticks. So a sum does not depend on its order, and a periodic step can
// be continued exactly.
#pragma once

#include <cstdint>

#include "core/base/units.hpp"

namespace plumbline {

/// Picoseconds. Costs are rounded to them once; results are divided by kTicksPerSecond once.
using Ticks = std::int64_t;
inline constexpr double kTicksPerSecond = 1e12;
/// Longer steps and costs are refused: about 53 days. Two of them still add up.
inline constexpr Ticks kMostTicks = Ticks{1} << 62;

/// The nearest tick. Throws InputError, naming `what`, unless it is finite, not negative and below
/// kMostTicks.
Ticks ticks_of(Seconds seconds, const char* what);
constexpr Seconds seconds_of(Ticks ticks) {
  return {static_cast<double>(ticks) / kTicksPerSecond};
}

/// Throws InputError, as for a step that is too long, unless `end` is below kMostTicks.
void check_length(Ticks end);

}  // namespace plumbline
