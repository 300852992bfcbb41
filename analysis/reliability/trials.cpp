#include "analysis/reliability/trials.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/run_parallel.hpp"

namespace plumbline {
namespace {

/// The shares of `horizon` that its trials took, mean, and their number of failures.
Goodput gathered(const std::vector<TrialTimes>& trials, double horizon) {
  Goodput all;
  all.effective.reserve(trials.size());
  TrialTimes sum;
  for (const TrialTimes& trial : trials) {
    sum.effective += trial.effective;
    sum.recomputed += trial.recomputed;
    sum.saving += trial.saving;
    sum.recovering += trial.recovering;
    sum.waiting += trial.waiting;
    sum.missing += trial.missing;
    sum.failures += trial.failures;
    all.effective.push_back(trial.effective / horizon);
  }
  const double time = horizon * static_cast<double>(trials.size());
  all.mean = {sum.effective / time,  sum.recomputed / time, sum.saving / time,
              sum.recovering / time, sum.waiting / time,    sum.missing / time};
  all.failures = sum.failures / static_cast<double>(trials.size());
  std::sort(all.effective.begin(), all.effective.end());
  return all;
}

}  // namespace

double Goodput::percentile(double part) const {
  if (effective.empty()) return 0;
  const double place = part * static_cast<double>(effective.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, effective.size() - 1);
  return effective[below] + (place - static_cast<double>(below)) * (effective[above] - effective[below]);
}

double Goodput::standard_error() const {
  double squares = 0;
  for (const double share : effective) squares += (share - mean.effective) * (share - mean.effective);
  const auto trials = static_cast<double>(effective.size());
  return trials > 1 ? std::sqrt(squares / (trials - 1) / trials) : 0;
}

Goodput run_trials(const TrialPlan& plan, const std::function<TrialTimes(TrialRandom&)>& trial) {
  std::vector<TrialTimes> trials(static_cast<std::size_t>(plan.trials));
  const auto threads = static_cast<std::size_t>(std::clamp(plan.threads, 1, plan.trials));
  const auto work = [&](std::size_t first) {
    for (std::size_t i = first; i < trials.size(); i += threads) {
      TrialRandom random(plan.seed, i);
      trials[i] = trial(random);
    }
  };
  run_parallel(threads, work);
  return gathered(trials, plan.horizon.value);
}

double SparePool::replace(double now) {
  if (spares_.nodes == SpareNodes::kAlways) return 0;
  while (!back_.empty() && back_.front() <= now) back_.pop_front();
  back_.push_back(now + spares_.repair.value);
  if (back_.size() <= static_cast<std::size_t>(spares_.nodes)) return 0;
  const double wait = back_.front() - now;
  back_.pop_front();
  return wait;
}

}  // namespace plumbline
