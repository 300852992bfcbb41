#include "bench/show/history/change_points.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/show/history/common_part.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

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
      const Squares own{std::max(rest, freedom * least_variance()), freedom};
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
