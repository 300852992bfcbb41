#include "bench/report/figures.hpp"

#include <fmt/format.h>

#include <cmath>

namespace plumbline {

std::string readable_bytes(double bytes) {
  const double mib = bytes / (1 << 20);
  return std::abs(mib) < 1024 ? fmt::format("{:.2f} MiB", mib) : fmt::format("{:.3f} GiB", mib / 1024);
}

std::string readable_time(double seconds) {
  if (std::abs(seconds) < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (std::abs(seconds) < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

std::string readable_percent(double fraction) {
  return fmt::format("{:+.1f} %", 100 * fraction);
}

}  // namespace plumbline
