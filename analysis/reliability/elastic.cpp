#include "analysis/reliability/elastic.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <vector>

#include "analysis/reliability/effective_time.hpp"
#include "analysis/reliability/trials.hpp"

namespace plumbline {
namespace {

/// From a failure until the group is back, waiting for a node apart.
Seconds whole_absence(const SavePlan& saves, const ElasticPlan& plan) {
  if (!plan.from_checkpoint) return plan.away;
  return plan.away + (saves.interval + saves.stall) / 2 + saves.durable;
}

/// One job from its start to the end of the horizon. The next event is a failure, the return of a group or
/// the end of a pause.
class ElasticTrial {
 public:
  ElasticTrial(const JobFailures& failures, const SavePlan& saves, const ElasticPlan& elastic,
               const TrialPlan& plan, TrialRandom& random)
      : failures_(failures),
        saves_(saves),
        elastic_(elastic),
        away_(whole_absence(saves, elastic).value),
        end_(plan.horizon.value),
        node_share_(failures.node_share()),
        random_(random),
        pool_(plan.spares),
        live_(elastic.groups) {}

  TrialTimes run() {
    draw_failure();
    while (now_ < end_) {
      const double back = back_.empty() ? end_ : back_.top();
      const double next = std::min({next_failure_, back, end_});
      advance(next);
      if (next == end_) break;
      if (back == next) {
        join();
      } else {
        fail();
      }
    }
    return times_;
  }

 private:
  /// Groups that are not there do not fail.
  void draw_failure() {
    next_failure_ =
        live_ == 0 ? end_ * 2 : now_ + random_.exponential(failures_.between.value * elastic_.groups / live_);
  }

  void advance(double next) {
    const double paused = std::clamp(pause_end_ - now_, 0.0, next - now_);
    times_.recovering += paused;
    const double ran = next - now_ - paused;
    now_ = next;
    since_start_ += ran;
    if (live_ == 0) {
      times_.waiting += ran;
      return;
    }
    const double there = static_cast<double>(live_) / elastic_.groups;
    const double working = saves_.interval / (saves_.interval + saves_.stall);
    times_.missing += ran * (1 - there);
    times_.saving += ran * there * (1 - working);
    times_.effective += ran * there * working;
  }

  /// Seconds of a run that no checkpoint holds, when it fails.
  double unsaved() const {
    if (!elastic_.from_checkpoint) return now_ > pause_end_ ? elastic_.step.value / 2 : 0;
    const double cycle = (saves_.interval + saves_.stall).value;
    const double kept = std::floor(std::max(0.0, since_start_ - saves_.durable.value) / cycle);
    return (since_start_ - kept * cycle) * saves_.interval.value / cycle;
  }

  /// Lost work; at most all of it.
  void lose(double seconds) {
    const double lost = std::min(seconds, times_.effective);
    times_.effective -= lost;
    times_.recomputed += lost;
  }

  void fail() {
    times_.failures += 1;
    // A failure during a pause finds no step in progress.
    lose(unsaved() * live_ / elastic_.groups);
    since_start_ = 0;
    --live_;
    const bool takes_node = random_.uniform() < node_share_;
    const double wait = takes_node ? pool_.replace(now_) : 0;
    back_.push(now_ + wait + away_);
    pause_end_ = std::max(pause_end_, now_ + elastic_.drop.value);
    if (live_ == 0) lose(saves_.interval.value / 2 + saves_.durable.value);
    draw_failure();
  }

  void join() {
    back_.pop();
    if (elastic_.from_checkpoint) {
      // It has waited for a checkpoint: work done while that was written is lost.
      lose(std::min(since_start_, saves_.durable.value) * live_ / elastic_.groups);
      since_start_ = 0;
    }
    ++live_;
    pause_end_ = std::max(pause_end_, now_ + elastic_.rejoin.value);
    draw_failure();
  }

  const JobFailures& failures_;
  const SavePlan& saves_;
  const ElasticPlan& elastic_;
  double away_;
  double end_;
  double node_share_;
  TrialRandom& random_;
  SparePool pool_;
  int live_;
  double now_ = 0;
  double next_failure_ = 0;
  double pause_end_ = 0;
  double since_start_ = 0;  // of running, from the last checkpoint that it started from
  std::priority_queue<double, std::vector<double>, std::greater<>> back_;  // groups that come back
  TrialTimes times_;
};

}  // namespace

ElasticPlan elastic_plan(const RecoveryPlan& recovery, const CheckpointPlan& checkpoint, int groups,
                         Seconds drop, Seconds rejoin, Seconds step) {
  const Seconds begin = recovery.hot_swap.value_or(recovery.restart);
  if (recovery.elastic_restarts) {
    const Seconds start = recovery.restart + checkpoint.size / checkpoint.read;
    return {groups, recovery.detect + start, start, recovery.detect + begin, step, true};
  }
  return {groups, recovery.detect + drop, rejoin, recovery.detect + begin + checkpoint.size / checkpoint.read,
          step};
}

double elastic_share(const JobFailures& failures, const SavePlan& saves, const ElasticPlan& plan) {
  const double saving = saves.interval / (saves.interval + saves.stall);
  const double away = whole_absence(saves, plan) / failures.between / plan.groups;
  const double missing = away / (1 + away);
  const double rate = (1 - missing) / failures.between.value;
  if (plan.from_checkpoint) {
    const JobFailures of_those_there{{1 / rate}, {{1, plan.drop}}};
    const double returns = std::exp(-rate * (plan.rejoin + saves.durable).value);
    return (1 - missing) * effective_share(of_those_there, saves) * returns;
  }
  const double paused = std::exp(-rate * (plan.drop + plan.rejoin).value);
  return (1 - missing) * paused * std::max(0.0, 1 - rate * plan.step.value / 2) * saving;
}

Goodput simulate_elastic(const JobFailures& failures, const SavePlan& saves, const ElasticPlan& elastic,
                         const TrialPlan& plan) {
  return run_trials(
      plan, [&](TrialRandom& random) { return ElasticTrial(failures, saves, elastic, plan, random).run(); });
}

}  // namespace plumbline
