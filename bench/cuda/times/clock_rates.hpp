// Rate of products at the clocks of a burst, and at those that a card's power and heat allow. No CUDA in
// here.
#pragma once

#include <string>

#include "core/base/units.hpp"

namespace plumbline {

constexpr Seconds kHeat{5};  // of products without a pause, before the sustained rate is read

struct ClockRates {
  FlopsPerSecond burst;      // single products on an idle card, as a profile's are measured
  FlopsPerSecond sustained;  // after kHeat
};

/// One line for people, which says what the profile has.
std::string to_string(const ClockRates& rates);

}  // namespace plumbline
