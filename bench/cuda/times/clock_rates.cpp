#include "bench/cuda/times/clock_rates.hpp"

#include <fmt/format.h>

namespace plumbline {

std::string to_string(const ClockRates& rates) {
  const double burst = rates.burst.value;
  const double sustained = rates.sustained.value;
  return fmt::format(
      "bf16 products: {:.0f} TFLOP/s in bursts, which the profile has; {:.0f} after {:.0f} s of heat, so "
      "that "
      "long steps take up to {:.0f} % longer",
      burst / 1e12, sustained / 1e12, kHeat.value, sustained < burst ? 100 * (burst / sustained - 1) : 0.0);
}

}  // namespace plumbline
