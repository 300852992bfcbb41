#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/diagnose/logs/iteration_log.hpp"
#include "core/base/error.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

double step_of(const IterationLine& line, double tokens_per_gpu, double samples) {
  if (line.step_s > 0) return line.step_s;
  if (line.tokens_per_s > 0 && tokens_per_gpu > 0) return tokens_per_gpu / line.tokens_per_s;
  if (line.samples_per_s > 0 && samples > 0) return samples / line.samples_per_s;
  return std::numeric_limits<double>::quiet_NaN();
}

/// Median of the values that are there; NaN without any.
double median_of(const std::vector<IterationLine>& lines, double IterationLine::*member) {
  std::vector<double> values;
  for (const IterationLine& line : lines) {
    if (line.*member >= 0) values.push_back(line.*member);
  }
  return values.empty() ? std::numeric_limits<double>::quiet_NaN() : median(values);
}

/// Value below which this share of sorted values is.
double quantile_of(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  return sorted[static_cast<std::size_t>(std::lround(place))];
}

}  // namespace

IterationSummary summary_of(const IterationLog& log, double tokens_per_gpu, double samples) {
  constexpr std::size_t kMostOutliers = 10;
  constexpr double kFar = 5;  // spreads above the median
  std::vector<IterationLine> lines;
  for (IterationLine line : log.lines) {
    line.step_s = step_of(line, tokens_per_gpu, samples);
    if (line.step_s > 0) lines.push_back(line);
  }
  if (lines.empty()) {
    throw InputError(
        fmt::format("--log: found rates of {} without step times, expected CONFIG with the batch; add it",
                    log.framework));
  }
  IterationSummary made;
  made.framework = log.framework;
  // Compilation and first allocations: up to a tenth of the lines, at most ten.
  made.warm_up = static_cast<std::int64_t>(std::min<std::size_t>(10, lines.size() / 10));
  if (made.warm_up == 0 && lines.size() > 2) made.warm_up = 1;
  lines.erase(lines.begin(), lines.begin() + made.warm_up);
  made.iterations = static_cast<std::int64_t>(lines.size());
  std::vector<double> steps;
  steps.reserve(lines.size());
  for (const IterationLine& line : lines) steps.push_back(line.step_s);
  const std::vector<double> in_order = steps;
  std::sort(steps.begin(), steps.end());
  made.median_s = median(steps);
  made.low_s = quantile_of(steps, 0.05);
  made.high_s = quantile_of(steps, 0.95);
  made.spread = (quantile_of(steps, 0.75) - quantile_of(steps, 0.25)) / 2 / made.median_s;
  if (const std::size_t third = in_order.size() / 3; third > 0) {
    const auto count = static_cast<std::ptrdiff_t>(third);
    const double first = median({in_order.begin(), in_order.begin() + count});
    made.drift = median({in_order.end() - count, in_order.end()}) / first - 1;
  }
  made.tokens_per_s = median_of(lines, &IterationLine::tokens_per_s);
  made.tflops_per_gpu = median_of(lines, &IterationLine::tflops_per_gpu);
  made.memory_bytes = median_of(lines, &IterationLine::memory_bytes);
  const double far = made.median_s * (1 + std::max(0.1, kFar * made.spread));
  for (const IterationLine& line : lines) {
    if (line.step_s > far) made.outliers.push_back(line);
  }
  std::stable_sort(made.outliers.begin(), made.outliers.end(),
                   [](const IterationLine& a, const IterationLine& b) { return a.step_s > b.step_s; });
  if (made.outliers.size() > kMostOutliers) made.outliers.resize(kMostOutliers);
  return made;
}

}  // namespace plumbline
