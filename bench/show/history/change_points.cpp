#include "bench/show/history/change_points.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "bench/show/history/noise_prior.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();
constexpr double kLeastVariance = 1e-8;  // of logarithms: clocks and schedulers are not better
constexpr std::size_t kFewestCells = 3;
constexpr int kSweeps = 2;
constexpr double kHalfPi = 1.5707963267948966;  // variance of n normal values' median, times n

/// Values of a level and their folders.
struct Level {
  std::vector<double> values;
  std::vector<std::size_t> folders;
};

/// A series of logarithms and the folders at which new levels begin, in order.
struct LevelSeries {
  std::vector<double> values;  // by folder; NaN: missing
  std::vector<std::size_t> begins;

  std::vector<Level> levels() const;
};

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

/// Noise of single values by the differences of neighbours of a level, which an unknown step hardly moves.
/// Differences share values: the degrees of freedom are those of a chi-squared of the same mean and variance.
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
  return {std::max(sum / (2 * count), kLeastVariance) * freedom, freedom};
}

struct CommonPart {
  LevelSeries common;             // missing with fewer than three cells, which do not tell whose noise it is
  std::vector<LevelSeries> rest;  // of each cell
};

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

/// Common part of a folder: the median over cells of values relative to their levels (a median polish). A
/// cell's rest is without the median of the other cells, times the share of its variance that independent
/// noise does not explain.
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

/// Deviations from one level: another from a folder on; another for a while, whose two steps hide each other;
/// a slope of many small steps.
enum class LevelShape { kStep, kWhile, kSlope };

constexpr LevelShape kLevelShapes[] = {LevelShape::kStep, LevelShape::kWhile, LevelShape::kSlope};
constexpr std::size_t kShortestWhile = 2;  // one odd folder is no level
constexpr std::size_t kNoSeries = static_cast<std::size_t>(-1);

/// Contrast between the values [from, to) and the others of their level. A slope is cut like a step.
struct Contrast {
  std::size_t from = 0;
  std::size_t to = 0;
  double step = 0;
  double scaled = 0;  // divided by its standard deviation at unit noise
};

double scaled_slope(const std::vector<double>& values) {
  const double middle = mean(values);
  double products = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - static_cast<double>(values.size() - 1) / 2;
    products += x * (values[i] - middle);
    squares += x * x;
  }
  return std::abs(products) / std::sqrt(squares);
}

Contrast largest_contrast(const std::vector<double>& values, LevelShape shape) {
  const std::size_t n = values.size();
  std::vector<double> sums(n + 1, 0.0);
  for (std::size_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + (values[i] - values[0]);
  Contrast largest;
  for (std::size_t from = 1; from < n; ++from) {
    const std::size_t first = shape == LevelShape::kWhile ? from + kShortestWhile : n;
    const std::size_t last = shape == LevelShape::kWhile ? n - 1 : n;
    for (std::size_t to = first; to <= last; ++to) {
      const auto in = static_cast<double>(to - from);
      const double out = static_cast<double>(n) - in;
      const double inside = sums[to] - sums[from];
      const double step = inside / in - (sums[n] - inside) / out;
      const double scaled = std::abs(step) / std::sqrt(1 / in + 1 / out);
      if (scaled > largest.scaled) largest = {from, to, step, scaled};
    }
  }
  if (shape == LevelShape::kSlope && largest.from > 0) largest.scaled = scaled_slope(values);
  return largest;
}

/// Sum of squares about the levels, and the number of values beyond one a level.
Squares squares_about(const std::vector<Level>& levels) {
  Squares squares;
  for (const Level& level : levels) {
    if (level.values.empty()) continue;
    const double middle = mean(level.values);
    for (const double value : level.values) squares.sum += (value - middle) * (value - middle);
    squares.freedom += static_cast<double>(level.values.size() - 1);
  }
  return squares;
}

/// Number of contrasts of a shape in a series.
double contrasts_of(const std::vector<Level>& levels, LevelShape shape) {
  double n = 0;
  for (const Level& level : levels) n += static_cast<double>(level.values.size());
  if (shape == LevelShape::kStep) return std::max(0.0, n - 1);
  if (shape == LevelShape::kSlope) return n > 1 ? 1 : 0;
  return n > 3 ? (n - 2) * (n - 3) / 2 : 0;
}

/// A change of a cell's own part, or of the common one.
struct FoundChange {
  std::size_t cell = kNoSeries;  // kNoSeries: common
  std::vector<std::size_t> begins;
  double probability = 1;
};

/// A search of one history, a change at a time.
class LevelSearch {
 public:
  LevelSearch(const std::vector<std::vector<double>>& series, const ChangeRule& rule) : rule_(rule) {
    std::size_t folders = 0;
    for (const std::vector<double>& values : series) folders = std::max(folders, values.size());
    for (const std::vector<double>& values : series) {
      cells_.push_back({std::vector<double>(folders, NAN), {}});
      for (std::size_t i = 0; i < values.size(); ++i)
        if (std::isfinite(values[i]) && values[i] > 0) cells_.back().values[i] = std::log(values[i]);
    }
  }

  /// Adds the most significant change, if there is one.
  bool next() {
    const CommonPart part = common_part(cells_, common_begins_);
    std::vector<std::vector<Level>> levels;
    std::vector<Squares> noise;
    for (const LevelSeries& rest : part.rest) {
      levels.push_back(rest.levels());
      noise.push_back(neighbour_noise(levels.back()));
    }
    const std::vector<Level> common = part.common.levels();
    const double searches = contrasts_of(common, LevelShape::kStep) > 0 ? 2 : 1;
    const NoisePrior prior(std::move(noise));
    FoundChange best;
    for (const LevelShape shape : kLevelShapes) {
      const double tests = searches * static_cast<double>(std::size(kLevelShapes));
      double contrasts = 0;
      for (const std::vector<Level>& each : levels) contrasts += contrasts_of(each, shape);
      for (std::size_t i = 0; i < levels.size(); ++i) {
        search(levels[i], shape, i, best, [&](const Contrast& contrast, const Squares& own) {
          const double factor = tests * contrasts;
          return factor * prior.tails(i, contrast.scaled, own, rule_.significance / factor);
        });
      }
      search(common, shape, kNoSeries, best, [&](const Contrast& contrast, const Squares& own) {
        if (own.freedom <= 0) return 1.0;
        return tests * contrasts_of(common, shape) *
               student_tails(contrast.scaled / std::sqrt(own.sum / own.freedom), own.freedom);
      });
    }
    if (best.begins.empty() || best.probability > rule_.significance) return false;
    std::vector<std::size_t>& begins = best.cell == kNoSeries ? common_begins_ : cells_[best.cell].begins;
    begins.insert(begins.end(), best.begins.begin(), best.begins.end());
    std::sort(begins.begin(), begins.end());
    found_.push_back(std::move(best));
    return true;
  }

  /// Steps of a cell's values at the changes of its own part and of the common one.
  void add_points(std::size_t cell, std::vector<ChangePoint>& points) const {
    LevelSeries series = cells_[cell];
    std::vector<std::size_t>& begins = series.begins;
    begins.insert(begins.end(), common_begins_.begin(), common_begins_.end());
    std::sort(begins.begin(), begins.end());
    begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
    drop_small_steps(series);
    const std::vector<Level> levels = series.levels();
    for (std::size_t i = 1; i < levels.size(); ++i)
      points.push_back({cell, levels[i].folders.front(), std::exp(mean(levels[i - 1].values)),
                        std::exp(mean(levels[i].values)), probability_of(cell, begins[i - 1])});
  }

 private:
  /// Replaces `best` where a level of a series has a less probable contrast.
  template <class Probability>
  void search(const std::vector<Level>& levels, LevelShape shape, std::size_t cell, FoundChange& best,
              const Probability& probability_of) const {
    const Squares about = squares_about(levels);
    const double freedom = about.freedom - 1;
    for (const Level& level : levels) {
      const Contrast contrast = largest_contrast(level.values, shape);
      if (contrast.from == 0 || std::abs(std::expm1(contrast.step)) < rule_.tolerance) continue;
      const double rest = about.sum - contrast.scaled * contrast.scaled;
      const Squares own{std::max(rest, freedom * kLeastVariance), freedom};
      const double probability = probability_of(contrast, own);
      if (probability >= best.probability) continue;
      best = {cell, {level.folders[contrast.from]}, probability};
      if (shape == LevelShape::kWhile) best.begins.push_back(level.folders[contrast.to]);
    }
  }

  /// Joins levels without values, and those whose step is below the tolerance, the smallest step first.
  void drop_small_steps(LevelSeries& series) const {
    while (!series.begins.empty()) {
      const std::vector<Level> levels = series.levels();
      std::vector<double> steps;
      for (std::size_t i = 1; i < levels.size(); ++i) {
        const bool known = !levels[i].values.empty() && !levels[i - 1].values.empty();
        steps.push_back(known ? std::abs(std::expm1(mean(levels[i].values) - mean(levels[i - 1].values)))
                              : -1);
      }
      const auto least = std::min_element(steps.begin(), steps.end());
      if (*least >= rule_.tolerance) return;
      series.begins.erase(series.begins.begin() + (least - steps.begin()));
    }
  }

  double probability_of(std::size_t cell, std::size_t begin) const {
    double probability = 1;
    for (const FoundChange& change : found_) {
      const bool here = std::find(change.begins.begin(), change.begins.end(), begin) != change.begins.end();
      if (here && (change.cell == cell || change.cell == kNoSeries))
        probability = std::min(probability, change.probability);
    }
    return probability;
  }

  const ChangeRule& rule_;
  std::vector<LevelSeries> cells_;
  std::vector<std::size_t> common_begins_;
  std::vector<FoundChange> found_;
};

}  // namespace

std::vector<ChangePoint> change_points(const std::vector<std::vector<double>>& series,
                                       const ChangeRule& rule) {
  LevelSearch search(series, rule);
  while (search.next()) {
  }
  std::vector<ChangePoint> points;
  for (std::size_t i = 0; i < series.size(); ++i) search.add_points(i, points);
  return points;
}

}  // namespace plumbline
