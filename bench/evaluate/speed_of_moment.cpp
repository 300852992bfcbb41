#include "bench/evaluate/speed_of_moment.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kMostWaited = 0.95;  // keeps a stretch finite

/// Of the median step where steps are long enough to be looked at one by one, else of all.
double share_of_step(const MeasurementReport& measurement, double StepReport::*of_step, double of_all) {
  constexpr Seconds kLong{0.1};
  if (measurement.time.step < kLong || measurement.steps.empty()) return of_all;
  std::vector<Seconds> times;
  times.reserve(measurement.steps.size());
  for (const StepReport& step : measurement.steps) times.push_back(step.time);
  return measurement.steps[lower_median_index(times)].*of_step;
}

/// `ranks` in step on as many of `processors` as there are ranks.
double longer_without(double share, int ranks, int processors) {
  if (!std::isfinite(share)) return 1;
  const double waited = std::min(share, kMostWaited);
  if (waited * (processors + 1) <= 1) return 1 / (1 - ranks * waited);
  const double programs = processors / (1 - waited);
  double longer = 1;
  for (int i = 0; i < ranks; ++i) longer *= (programs - i) / (processors - i);
  return longer;
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
  const DisturbanceReport& all = measurement.disturbance;
  const int used = std::min(ranks.ranks, ranks.processors);
  const int in_step = std::min(ranks.in_step, used);
  if (ranks.ranks <= ranks.processors)
    return longer_without(share_of_step(measurement, &StepReport::waited, all.waited), in_step, used);
  if (!all.disturbed) return 1;
  return longer_without(share_of_step(measurement, &StepReport::others, all.others), in_step, used);
}

}  // namespace plumbline
