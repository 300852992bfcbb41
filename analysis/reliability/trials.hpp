// Trials of some weeks on several threads, gathered in their order; spare nodes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <vector>

#include "analysis/reliability/trial_random.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// Spare nodes on standby.
struct SpareNodes {
  static constexpr int kAlways = std::numeric_limits<int>::max();
  int nodes = kAlways;  // kAlways: there is always one
  Seconds repair{};     // until a node that failed is a spare again
};

struct TrialPlan {
  int trials = 10000;
  Seconds horizon{30 * 86400.0};
  std::uint64_t seed = 1;
  int threads = 1;  // results do not depend on it
  SpareNodes spares{};
};

/// Wall time of a trial, in shares that sum to 1.
struct TimeShares {
  double effective = 0;   // work that was kept, or was not lost yet at the end
  double recomputed = 0;  // work that a failure lost
  double saving = 0;      // stalls of saves
  double recovering = 0;  // from a failure to the next step
  double waiting = 0;     // for a node to be repaired
  double missing = 0;     // of groups that dropped out while the others went on
};

struct Goodput {
  TimeShares mean;
  double failures = 0;              // of a trial, mean
  std::vector<double> effective{};  // of every trial, ascending
  /// The effective share that a part of the trials stays below; 0.5: the median.
  double percentile(double part) const;
  /// Standard error of mean.effective.
  double standard_error() const;
};

/// Seconds of one trial by where they went; `failures` its number.
struct TrialTimes {
  double effective = 0, recomputed = 0, saving = 0, recovering = 0, waiting = 0, missing = 0, failures = 0;
};

/// Runs `trial` for every trial of the plan, each with its own random numbers.
Goodput run_trials(const TrialPlan& plan, const std::function<TrialTimes(TrialRandom&)>& trial);

/// Spare nodes of a trial, some of them in repair.
class SparePool {
 public:
  explicit SparePool(const SpareNodes& spares) : spares_(spares) {}
  /// A node failed at `now`, not before the ones that failed earlier, and another one takes its place: the
  /// wait for that one.
  double replace(double now);

 private:
  SpareNodes spares_;
  std::deque<double> back_;  // when the nodes in repair are there again
};

}  // namespace plumbline
