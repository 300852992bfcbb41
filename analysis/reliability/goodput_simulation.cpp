#include "analysis/reliability/goodput_simulation.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/reliability/trials.hpp"

namespace plumbline {
namespace {

/// One job from its start to the end of the horizon.
class RestartTrial {
 public:
  RestartTrial(const JobFailures& failures, const SavePlan& saves, const TrialPlan& plan, TrialRandom& random)
      : failures_(failures), saves_(saves), end_(plan.horizon.value), random_(random), pool_(plan.spares) {}

  TrialTimes run() {
    next_failure_ = gap();
    while (now_ < end_) {
      work();
      if (now_ < end_) recover();
    }
    return times_;
  }

 private:
  double gap() { return random_.exponential(failures_.between.value); }

  /// Works until the next failure or the end.
  void work() {
    const double until = std::min(next_failure_, end_);
    const double took = until - now_;
    const double cycle = saves_.interval.value + saves_.stall.value;
    const double begun = std::floor(took / cycle);
    const double worked =
        begun * saves_.interval.value + std::min(took - begun * cycle, saves_.interval.value);
    times_.saving += took - worked;
    now_ = until;
    if (until == end_) {
      times_.effective += worked;
      return;
    }
    const double written = std::max(0.0, std::floor((took - saves_.durable.value) / cycle));
    times_.effective += written * saves_.interval.value;
    times_.recomputed += worked - written * saves_.interval.value;
  }

  const FailureKind& drawn_kind() {
    if (failures_.kinds.size() == 1) return failures_.kinds.front();
    double place = random_.uniform();
    for (const FailureKind& kind : failures_.kinds) {
      place -= kind.share;
      if (place < 0) return kind;
    }
    return failures_.kinds.back();
  }

  /// Adds the part of `seconds` that is before the end to `where`.
  void pass(double seconds, double& where) {
    const double passed = std::min(seconds, end_ - now_);
    where += passed;
    now_ += passed;
  }

  /// Recovers until a recovery completes before the next failure. A job that waits for a node does not fail.
  void recover() {
    while (now_ < end_) {
      times_.failures += 1;
      const FailureKind& kind = drawn_kind();
      if (kind.takes_node) pass(pool_.replace(now_), times_.waiting);
      const double free = gap();
      next_failure_ = now_ + free;
      pass(std::min(free, kind.recovery.value), times_.recovering);
      if (free >= kind.recovery.value) return;
    }
  }

  const JobFailures& failures_;
  const SavePlan& saves_;
  double end_;
  TrialRandom& random_;
  SparePool pool_;
  double now_ = 0;
  double next_failure_ = 0;
  TrialTimes times_;
};

}  // namespace

Goodput simulate_goodput(const JobFailures& failures, const SavePlan& saves, const TrialPlan& plan) {
  return run_trials(plan,
                    [&](TrialRandom& random) { return RestartTrial(failures, saves, plan, random).run(); });
}

}  // namespace plumbline
