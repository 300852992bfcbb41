#include "bench/evaluate/speed_of_moment.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kMostTaken = 0.95;  // keeps a stretch finite

/// Of the median step where steps are long enough to be looked at one by one, else of all. `others`: those of others, not
/// what ranks waited.
std::vector<double> shares_in_step(const MeasurementReport& measurement, bool others) {
  constexpr Seconds kLong{0.1};
  const DisturbanceReport& all = measurement.disturbance;
  if (measurement.time.step < kLong || measurement.steps.empty()) return {others ? all.others : all.waited};
  std::vector<Seconds> times;
  times.reserve(measurement.steps.size());
  for (const StepReport& step : measurement.steps) times.push_back(step.time);
  const StepReport& median = measurement.steps[lower_median_index(times)];
  if (median.parts.empty()) return {others ? median.others : median.waited};
  std::vector<double> shares;
  shares.reserve(median.parts.size());
  for (const PartOfStep& part : median.parts) shares.push_back(others ? part.others : part.waited);
  return shares;
}

/// The share of the time in which `in_step` ranks on `used` processors go on, by the share that others take of them. Below
/// zero, where ticks are counted late, it is above 1: right in the mean.
double going_on(double share, int in_step, int used, bool yielding) {
  const double one = 1.0 / (used + 1);
  const double with_one = 1 - in_step * one;
  const double with_each = yielding ? 0.5 : std::pow(0.5, in_step);
  if (share <= one) return 1 - in_step * share;
  if (share <= 0.5) return with_one + (with_each - with_one) * (share - one) / (0.5 - one);
  return 2 * with_each * (1 - share);
}

}  // namespace

bool is_disturbed(const ProbeLook& look, int processors) {
  const StepLoad& load = look.load;
  const StepReport whole{load.wall, load.others, load.stolen, load.waited, load.involuntary, load.frequency};
  return disturbance_of({whole}, processors).disturbed;
}

ByClass speed_during(const ProbeLook& before, const ProbeLook& after, bool disturbed, int processors) {
  const bool first = is_disturbed(before, processors) == disturbed;
  const bool second = is_disturbed(after, processors) == disturbed;
  if (first != second) return first ? before.longer : after.longer;
  ByClass speed;
  for (const SpeedClass& each : kSpeedClasses) {
    const double a = before.longer.*each.member, b = after.longer.*each.member;
    speed.*each.member = first || disturbed ? (a + b) / 2 : std::min(a, b);
  }
  return speed;
}

double stretch_by_others(const MeasurementReport& measurement, const RanksOnMachine& ranks) {
  const int used = std::min(ranks.ranks, ranks.processors);
  const bool yielding = ranks.ranks > ranks.processors;
  if (yielding && !measurement.disturbance.disturbed) return 1;
  const std::vector<double> shares = shares_in_step(measurement, yielding);
  double going = 0;
  for (const double share : shares) {
    if (!std::isfinite(share)) return 1;
    going += going_on(std::min(share, kMostTaken), std::min(ranks.in_step, used), used, yielding);
  }
  return std::max(1.0, static_cast<double>(shares.size()) / going);
}

}  // namespace plumbline
