#include "bench/show/history/common_part.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastNoise = 1e-4;
constexpr std::size_t kFewestCells = 3;
constexpr int kSweeps = 2;
constexpr double kHalfPi = 1.5707963267948966;  // variance of n normal values' median, times n

/// Values relative to their levels, once the common part is removed from these.
std::vector<double> deviations_of(const LevelSeries& cell, const std::vector<double>& common) {
  LevelSeries net = cell;
  for (std::size_t i = 0; i < common.size(); ++i) net.values[i] -= std::isfinite(common[i]) ? common[i] : 0;
  std::vector<double> deviations(cell.values.size(), kNoValue);
  for (const Level& level : net.levels()) {
    if (level.values.empty()) continue;
    const double middle = median(level.values);
    for (const std::size_t folder : level.folders) deviations[folder] = cell.values[folder] - middle;
  }
  return deviations;
}

/// Known values of a folder, sorted.
std::vector<double> sorted_values(const std::vector<std::vector<double>>& cells, std::size_t folder) {
  std::vector<double> known;
  for (const std::vector<double>& cell : cells)
    if (std::isfinite(cell[folder])) known.push_back(cell[folder]);
  std::sort(known.begin(), known.end());
  return known;
}

/// Median of sorted values without one of them; NaN without others.
double median_of_others(const std::vector<double>& sorted, double own) {
  const auto place =
      static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), own) - sorted.begin());
  const auto at = [&](std::size_t i) { return sorted[i < place ? i : i + 1]; };
  const std::size_t others = sorted.size() - 1;
  if (others == 0) return kNoValue;
  return others % 2 == 1 ? at(others / 2) : (at(others / 2 - 1) + at(others / 2)) / 2;
}

/// Cells without a share of their references; a value without a reference is missing.
std::vector<LevelSeries> without(std::vector<LevelSeries> cells,
                                 const std::vector<std::vector<double>>& references, double share) {
  if (share == 0) return cells;
  for (std::size_t cell = 0; cell < cells.size(); ++cell)
    for (std::size_t i = 0; i < references[cell].size(); ++i)
      cells[cell].values[i] -= share * references[cell][i];
  return cells;
}

double variance_of(const LevelSeries& series) {
  const Squares noise = neighbour_noise(series.levels());
  return noise.freedom > 0 ? noise.sum / noise.freedom : kNoValue;
}

/// Share of the common part's variance that is more than a median of independent noise has.
double shared_share(const CommonPart& part) {
  std::vector<double> variances;
  for (const LevelSeries& rest : part.rest) {
    const double variance = variance_of(rest);
    if (std::isfinite(variance)) variances.push_back(variance);
  }
  const double common = variance_of(part.common);
  if (variances.empty() || !std::isfinite(common)) return 1;
  const double of_median = kHalfPi / static_cast<double>(part.rest.size());
  const double independent = median(variances) / (1 + of_median) * of_median;
  return std::max(0.0, 1 - independent / common);
}

}  // namespace

double least_variance() {
  return kLeastNoise * kLeastNoise;
}

std::vector<Level> LevelSeries::levels() const {
  std::vector<Level> levels(begins.size() + 1);
  std::size_t level = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    while (level < begins.size() && i >= begins[level]) ++level;
    if (!std::isfinite(values[i])) continue;
    levels[level].values.push_back(values[i]);
    levels[level].folders.push_back(i);
  }
  return levels;
}

Squares neighbour_noise(const std::vector<Level>& levels) {
  double sum = 0, count = 0, trace = 0;  // trace: of the square of the quadratic form's matrix
  for (const Level& level : levels) {
    if (level.values.size() < 2) continue;
    const auto n = static_cast<double>(level.values.size());
    for (std::size_t i = 1; i < level.values.size(); ++i)
      sum += (level.values[i] - level.values[i - 1]) * (level.values[i] - level.values[i - 1]);
    count += n - 1;
    trace += 6 * n - 8;
  }
  if (count == 0) return {};
  const double freedom = 4 * count * count / trace;
  return {std::max(sum / (2 * count), least_variance()) * freedom, freedom};
}

CommonPart common_part(const std::vector<LevelSeries>& cells, const std::vector<std::size_t>& common_begins) {
  const std::size_t folders = cells.empty() ? 0 : cells.front().values.size();
  CommonPart part{{std::vector<double>(folders, kNoValue), common_begins}, cells};
  if (cells.size() < kFewestCells) return part;
  std::vector<std::vector<double>> deviations(cells.size());
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (std::size_t i = 0; i < cells.size(); ++i)
      deviations[i] = deviations_of(cells[i], part.common.values);
    for (std::size_t folder = 0; folder < folders; ++folder) {
      const std::vector<double> known = sorted_values(deviations, folder);
      part.common.values[folder] = known.empty() ? kNoValue : median(known);
    }
  }
  std::vector<std::vector<double>> references(cells.size(), std::vector<double>(folders, kNoValue));
  for (std::size_t folder = 0; folder < folders; ++folder) {
    const std::vector<double> known = sorted_values(deviations, folder);
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (std::isfinite(deviations[i][folder]))
        references[i][folder] = median_of_others(known, deviations[i][folder]);
  }
  part.rest = without(cells, references, 1);
  part.rest = without(cells, references, shared_share(part));
  return part;
}

}  // namespace plumbline
