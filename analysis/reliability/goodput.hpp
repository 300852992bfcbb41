// Goodput of a month of training: failures, recoveries and checkpoints of a job, expected and simulated.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/reliability/draws.hpp"
#include "analysis/reliability/elastic.hpp"
#include "analysis/reliability/fleet.hpp"
#include "analysis/reliability/goodput_simulation.hpp"
#include "analysis/reliability/job_failures.hpp"

namespace plumbline {

/// Prices that a user pays; empty: not asked for.
struct GoodputPrices {
  std::optional<double> gpu_hour;       // of one GPU, in any currency
  std::optional<double> watts_per_gpu;  // with its share of host, network and cooling
  std::optional<double> kwh;
};

struct GoodputRequest {
  Fleet fleet;
  int gpus = 1;
  Seconds step;                // of training, when nothing fails
  double tokens_per_step = 0;  // of the whole job
  CheckpointPlan checkpoint;
  std::optional<Seconds> interval;  // work between two saves; nothing: the best
  RecoveryPlan recovery;
  Seconds drop{};    // elastic: communicators without the group that failed
  Seconds rejoin{};  // elastic: all groups, when one comes back
  TrialPlan trials;
  GoodputPrices prices{};
  /// Real ÷ given step at a quantile from 0 to 1; empty: the step is certain.
  std::function<double(double)> step_ratio{};
};

/// A rule for the interval and its result.
struct IntervalRule {
  std::string name;
  Seconds interval;
  double effective = 0;  // expected, closed form
};

/// One change of the request and the expected effective share it gives, at its own best interval if none was
/// given.
struct GoodputChange {
  std::string what;
  double effective = 0;
};

struct GoodputReport {
  Seconds between;  // failures
  Seconds recovery;
  Seconds save;  // until a checkpoint is written
  bool makes_progress = true;
  SavePlan saves;
  double expected = 0;     // effective share, closed form
  double first_order = 0;  // E[ETTR] of arXiv:2410.21680
  std::vector<IntervalRule> intervals;
  Goodput simulated;
  std::vector<GoodputChange> changes;
  std::optional<double> nodes_in_repair;  // mean, if repairs take a time
  int spares_for_99 = 0;                  // spare nodes that are enough 99 % of the time

  double tokens_per_day = 0;  // mean of the trials
  double gpu_hours = 0;       // of the horizon, spare nodes on standby included
  std::optional<double> kwh;
  std::optional<double> cost;              // of the horizon: GPU-hours and energy
  std::optional<double> cost_per_million;  // tokens that were kept
  /// 80 % intervals of both, over trials and the errors of the step.
  std::optional<Interval> tokens_per_day_interval{};
  std::optional<Interval> cost_per_million_interval{};
};

/// Throws InputError when the trials would see more failures than can be simulated, or a request contradicts
/// itself.
GoodputReport plan_goodput(const GoodputRequest& request);

/// The request with one thing changed, and the name of the change: failures, detection, restart, bandwidth,
/// form of saves.
std::vector<std::pair<std::string, GoodputRequest>> changed_requests(const GoodputRequest& request);

/// The expected effective share alone, at the request's interval or the best one.
double expected_effective(const GoodputRequest& request);

}  // namespace plumbline
