#include "bench/measure/calibrate/speed_of_moment.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kMostTaken = 0.95;  // keeps a stretch finite

using LostByRank = std::vector<double>;

/// The parts of the median step where steps are long enough to be looked at one by one, else those of all.
std::vector<LostByRank> parts_of_interest(const MeasurementReport& measurement) {
  constexpr Seconds kLong{0.1};
  const std::vector<StepReport>& steps = measurement.steps;
  if (steps.empty()) return {};
  if (measurement.time.step >= kLong) {
    std::vector<Seconds> times;
    times.reserve(steps.size());
    for (const StepReport& step : steps) times.push_back(step.time);
    return steps[lower_median_index(times)].lost;
  }
  std::vector<LostByRank> parts;
  for (const StepReport& step : steps) parts.insert(parts.end(), step.lost.begin(), step.lost.end());
  return parts;
}

/// Share of the time in which ranks on `processors` run in step, by the share that others take of these.
/// Lagging counters make it negative in one part and larger in the next: right in the mean.
double going_on(double share, int processors, bool yielding) {
  const double one = 1.0 / (processors + 1);
  const double with_one = 1 - processors * one;
  const double with_each = yielding ? 0.5 : std::pow(0.5, processors);
  if (share <= one) return 1 - processors * share;
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
  ByClass speed;
  for (const SpeedClass& each : kSpeedClasses) {
    const double a = before.longer.*each.member, b = after.longer.*each.member;
    const double error_a = before.error.*each.member, error_b = after.error.*each.member;
    double value = first ? a : b;
    double error = first ? error_a : error_b;
    if (first == second) {
      value = first || disturbed ? (a + b) / 2 : std::min(a, b);
      error = std::hypot(error_a, error_b) / 2;
    }
    speed.*each.member = std::abs(value - 1) < kSignificant * error ? 1 : value;
  }
  return speed;
}

std::vector<double> stretch_by_others(const MeasurementReport& measurement, const RanksOnMachine& on) {
  std::vector<double> stretch(static_cast<std::size_t>(on.pipeline), 1.0);
  const bool yielding = on.ranks > on.processors;
  if (yielding && !measurement.disturbance.disturbed) return stretch;
  const std::vector<LostByRank> parts = parts_of_interest(measurement);
  if (parts.empty()) return stretch;
  const int stage = on.ranks / on.pipeline;
  for (int first = 0, count = 0; first < on.ranks; first += count) {
    count = std::min(on.in_step, stage - first % stage);
    double going = 0;
    for (const LostByRank& lost : parts) {
      const auto from = lost.begin() + first;
      const double share = std::accumulate(from, from + count, 0.0) / count;
      if (!std::isfinite(share)) return std::vector<double>(stretch.size(), 1.0);
      going += going_on(std::min(share, kMostTaken), std::min(count, on.processors), yielding);
    }
    double& longest = stretch[static_cast<std::size_t>(first / stage)];
    longest = std::max(longest, static_cast<double>(parts.size()) / going);
  }
  return stretch;
}

}  // namespace plumbline
