#include "bench/record/rounds_of_cell.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

Seconds median_step(const std::vector<StepReport>& steps) {
  std::vector<Seconds> times;
  times.reserve(steps.size());
  for (const StepReport& step : steps) times.push_back(step.time);
  return lower_median(times);
}

void set_step(MeasurementReport& measurement, Seconds step) {
  const double slower = step / measurement.time.step;
  measurement.time.step = step;
  for (const auto& figure : kThroughputFigures) {
    if (figure.timed) figure.set(measurement.throughput, figure.of(measurement.throughput) / slower);
  }
}

/// The weighted mean of two predictions of the step; everything else is the second's.
ProbedReport mean_of(const ProbedReport& a, double weight, ProbedReport b) {
  const auto mean = [&](double x, double y) { return (weight * x + y) / (weight + 1); };
  for (const SpeedClass& each : kSpeedClasses) {
    for (ByClass ProbedReport::*part : {&ProbedReport::before, &ProbedReport::after, &ProbedReport::speed})
      (b.*part).*each.member = mean((a.*part).*each.member, (b.*part).*each.member);
  }
  b.stretch = mean(a.stretch, b.stretch);
  b.time.step.value = mean(a.time.step.value, b.time.step.value);
  return b;
}

}  // namespace

void add_rounds(const Record& earlier, Record& now) {
  if (!earlier.measurement || !now.measurement) return;
  const MeasurementReport& before = *earlier.measurement;
  MeasurementReport& after = *now.measurement;
  const int rounds = before.rounds + after.rounds;
  const int repeats = before.disturbance.repeats + after.disturbance.repeats;
  if (before.steps.empty() || after.steps.empty() ||
      before.disturbance.disturbed != after.disturbance.disturbed) {
    if (after.disturbance.disturbed || after.steps.empty()) {
      now.measurement = before;
      now.probed = earlier.probed;
    }
  } else {
    std::vector<StepReport> steps = before.steps;
    steps.insert(steps.end(), after.steps.begin(), after.steps.end());
    const Seconds step = median_step(steps);
    const auto distance = [&](const MeasurementReport& m) { return std::abs((m.time.step - step).value); };
    if (distance(before) < distance(after)) after = before;
    if (earlier.probed && now.probed) now.probed = mean_of(*earlier.probed, before.rounds, *now.probed);
    set_step(after, step);
    after.steps = std::move(steps);
    after.samples = static_cast<int>(after.steps.size());
    const auto [low, high] = std::minmax_element(
        after.steps.begin(), after.steps.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
    after.step_min = low->time;
    after.step_max = high->time;
  }
  now.measurement->rounds = rounds;
  now.measurement->disturbance.repeats = repeats;
  if (now.prediction) now.error = compare(*now.prediction, *now.measurement, now.probed);
}

}  // namespace plumbline
