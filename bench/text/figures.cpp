#include "bench/text/figures.hpp"

#include <fmt/format.h>

#include <cmath>

namespace plumbline {

std::string readable_time(double seconds) {
  if (std::abs(seconds) < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (std::abs(seconds) < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

std::string readable_percent(double fraction) {
  return fmt::format("{:+.1f} %", 100 * fraction);
}

double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * power >= least * (1 - 1e-9)) return digit * power;
  }
  return 10 * power;
}

}  // namespace plumbline
