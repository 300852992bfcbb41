#include "bench/measure/calibrate/figures/levels.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "core/base/statistics.hpp"

namespace plumbline::calibration {
namespace {

/// Products that gain less from a cache than this do not show the cache.
constexpr double kLeastGain = 0.1;

/// By working set in bytes, seconds.
using Times = std::map<double, double>;

/// Fractional position of `bytes` between table `below` and the next; nothing if both take equally long.
void add_level(const Times& times, std::size_t below, double bytes, std::vector<double>& levels) {
  const auto at = [&](std::size_t table) { return times.at(static_cast<double>(kWorkingSets[table].value)); };
  const double gain = at(below + 1) - at(below);
  if (gain < kLeastGain * at(below)) return;
  const double share = std::clamp((times.at(bytes) - at(below)) / gain, 0.0, 1.0);
  levels.push_back(static_cast<double>(below) + share);
}

}  // namespace

CacheLevels levels_of(const std::vector<Cell>& cells, const std::vector<double>& seconds) {
  std::map<std::string, Times> products;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (cells[i].table == Table::level) products[cells[i].key][cells[i].at[0]] = seconds[i];
  }
  CacheLevels levels;
  if (products.empty()) return levels;
  for (const auto& [bytes, unused] : products.begin()->second) {
    std::size_t below = 0;
    while (below + 2 < kWorkingSets.size() && bytes >= static_cast<double>(kWorkingSets[below + 1].value))
      ++below;
    std::vector<double> found;
    for (const auto& [key, times] : products) add_level(times, below, bytes, found);
    const double level = found.empty() ? static_cast<double>(below) : median(found);
    levels.bytes.push_back(bytes);
    levels.level.push_back(levels.level.empty() ? level : std::max(level, levels.level.back()));
  }
  return levels;
}

}  // namespace plumbline::calibration
