#include "bench/record/step_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

constexpr double kTick = 0.01;  // seconds in which /proc/stat counts

/// Reading takes a moment: less than nothing is nothing. NaN stays.
double at_least_nothing(double share) {
  return share < 0 ? 0 : share;
}

}  // namespace

DisturbanceReport disturbance_of(const std::vector<StepReport>& steps, int processors) {
  double wall = 0;
  for (const StepReport& step : steps) wall += step.time.value;
  const auto mean = [&](double StepReport::*member) {
    double sum = 0;
    for (const StepReport& step : steps) sum += step.*member * step.time.value;
    return wall > 0 ? at_least_nothing(sum / wall) : StepReport::kUnknown;
  };
  DisturbanceReport report;
  report.others = mean(&StepReport::others);
  report.stolen = mean(&StepReport::stolen);
  report.waited = mean(&StepReport::waited);
  // Each step's ends fall anywhere within a tick of each processor's counter; a step shorter than a tick sees
  // one or none.
  double variance = 0;
  for (const StepReport& step : steps) variance += processors * kTick * std::min(step.time.value, kTick);
  const double resolution = wall > 0 ? std::sqrt(variance) / (wall * processors) : 0;
  report.disturbed = report.others > kDisturbed + resolution || report.stolen > kDisturbed + resolution ||
                     report.waited > kDisturbed;
  return report;
}

double worst_share(const DisturbanceReport& disturbance) {
  double worst = 0;
  for (const double share : {disturbance.others, disturbance.stolen, disturbance.waited}) {
    if (share > worst) worst = share;  // not for NaN
  }
  return worst;
}

void clip_shares(std::vector<StepReport>& steps) {
  for (StepReport& step : steps) {
    for (double StepReport::*const share : {&StepReport::others, &StepReport::stolen, &StepReport::waited})
      step.*share = at_least_nothing(step.*share);
  }
}

std::string what_disturbed(const DisturbanceReport& disturbance) {
  std::vector<std::string> parts;
  const auto add = [&](const char* text, double share) {
    if (share > kDisturbed) parts.push_back(fmt::format(fmt::runtime(text), 100 * share));
  };
  add("other programs used {:.0f} % of the processors", disturbance.others);
  add("the hypervisor took {:.0f} % of them", disturbance.stolen);
  add("ranks waited {:.0f} % of their time for a processor", disturbance.waited);
  return fmt::format("{}", fmt::join(parts, ", "));
}

StepInterval interval_of(const std::vector<StepReport>& steps) {
  if (steps.empty()) throw Error("an interval of no steps was asked for");
  std::vector<double> times;
  times.reserve(steps.size());
  for (const StepReport& step : steps) times.push_back(step.time.value);
  std::sort(times.begin(), times.end());
  const std::size_t n = times.size();
  // The median is below the k+1st of n with the probability that at most k of n coins show heads.
  std::size_t outside = 0;
  double probability = std::pow(0.5, static_cast<double>(n));
  double tail = probability;
  while (n >= 6 && outside + 1 < n / 2) {
    probability *= static_cast<double>(n - outside) / static_cast<double>(outside + 1);
    if (tail + probability > 0.025) break;
    tail += probability;
    ++outside;
  }
  return {{times[outside]}, {times[n - 1 - outside]}};
}

}  // namespace plumbline
