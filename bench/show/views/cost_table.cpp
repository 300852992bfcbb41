#include "bench/show/views/cost_table.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plumbline {

std::string cost_table(std::vector<CostLine> lines) {
  std::stable_sort(lines.begin(), lines.end(), [](const CostLine& a, const CostLine& b) {
    return a.stage != b.stage ? a.stage < b.stage : a.seconds > b.seconds;
  });
  const bool overlaps =
      std::any_of(lines.begin(), lines.end(), [](const CostLine& line) { return line.hidden.value > 0; });
  std::string text =
      fmt::format("\n{:<6} {:<9} {:<32} {:>6} {:>12} {:>12}{}\n", "stage", "phase", "operator", "calls",
                  "total us", "GFLOP/s", overlaps ? fmt::format(" {:>24}", "us alongside computation") : "");
  for (const CostLine& line : lines) {
    const double rate = line.seconds.value > 0 ? line.flops.value / line.seconds.value / 1e9 : 0;
    text += fmt::format("{:<6} {:<9} {:<32} {:>6} {:>12.1f} {:>12}{}\n", line.stage, line.phase, line.label,
                        line.count, line.seconds.value * 1e6, rate > 0 ? fmt::format("{:.1f}", rate) : "-",
                        line.hidden.value > 0 ? fmt::format(" {:>24.1f}", line.hidden.value * 1e6) : "");
  }
  return text;
}

}  // namespace plumbline
