#include "analysis/stragglers/step_noise.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analysis/reliability/trial_random.hpp"
#include "analysis/simulate/step_simulation.hpp"

namespace plumbline {
namespace {

/// What is slow about a pipeline in one step, by pipeline rank.
struct Pace {
  double most = 1;        // the largest factor
  double latest = 0;      // the sum of all lateness: what the step is longer by at most
  std::size_t first = 0;  // where its ranks begin in the lists
};

class NoisyJob {
 public:
  NoisyJob(const NoiseJob& job, const NoiseModel& noise, const NoisePlan& plan)
      : job_(job),
        noise_(noise),
        random_(plan.seed, 0),
        simulation_(*job.step),
        ranks_(static_cast<std::size_t>(job.step->once.ranks)),
        factor_(ranks_ * static_cast<std::size_t>(job.replicas)),
        late_(factor_.size()) {
    draw_slow(plan.replaced);
    pace_.resize(static_cast<std::size_t>(job.replicas));
  }

  NoisySteps run(int steps) {
    NoisySteps result;
    result.quiet = {to_seconds(simulation_.run(job_.costs).makespan)};
    quiet_ = result.quiet.value;
    simulated_ = 1;
    result.steps.reserve(static_cast<std::size_t>(steps));
    // Slow GPUs are slow in every step: nothing else makes steps differ.
    const bool alike = noise_.jitter <= 0 && noise_.hiccup_share <= 0;
    for (int step = 0; step < steps; ++step) {
      if (!alike || step == 0) draw_step();
      result.steps.push_back(alike && step > 0 ? result.steps.front() : longest());
    }
    std::sort(result.steps.begin(), result.steps.end());
    result.slow_gpus = static_cast<std::int64_t>(slow_.size());
    result.simulated = simulated_;
    return result;
  }

 private:
  static double to_seconds(Ticks ticks) { return seconds_of(ticks).value; }

  std::int64_t gpus() const { return static_cast<std::int64_t>(factor_.size()) * job_.ranks_per_stage; }

  /// Places of slow GPUs. All are as slow, so that it matters only how many are in one pipeline: the fullest ones lose
  /// theirs first.
  void draw_slow(std::int64_t replaced) {
    if (noise_.slow_share <= 0) return;
    for (std::int64_t gpu = 0; gpu < gpus(); ++gpu) {
      if (random_.uniform() < noise_.slow_share) slow_.push_back(gpu);
    }
    const std::int64_t of_pipeline = static_cast<std::int64_t>(ranks_) * job_.ranks_per_stage;
    std::vector<int> count(static_cast<std::size_t>(job_.replicas));
    for (const std::int64_t gpu : slow_) ++count[static_cast<std::size_t>(gpu / of_pipeline)];
    std::stable_sort(slow_.begin(), slow_.end(), [&](std::int64_t a, std::int64_t b) {
      return count[static_cast<std::size_t>(a / of_pipeline)] <
             count[static_cast<std::size_t>(b / of_pipeline)];
    });
    slow_.resize(slow_.size() - std::min(slow_.size(), static_cast<std::size_t>(replaced)));
    std::sort(slow_.begin(), slow_.end());
  }

  /// Factors and lateness of one step.
  void draw_step() {
    std::size_t next_slow = 0;
    std::int64_t gpu = 0;
    for (std::size_t rank = 0; rank < factor_.size(); ++rank) {
      double factor = noise_.jitter > 0 ? 0 : 1;
      for (int i = 0; i < job_.ranks_per_stage; ++i, ++gpu) {
        double own = noise_.jitter > 0 ? std::exp(noise_.jitter * random_.normal()) : 1;
        if (next_slow < slow_.size() && slow_[next_slow] == gpu) {
          own *= noise_.slow_factor;
          ++next_slow;
        }
        factor = std::max(factor, own);
      }
      factor_[rank] = factor;
    }
    draw_hiccups();
    for (std::size_t replica = 0; replica < pace_.size(); ++replica) {
      const auto begin = static_cast<std::ptrdiff_t>(replica * ranks_);
      const auto end = begin + static_cast<std::ptrdiff_t>(ranks_);
      pace_[replica] = {*std::max_element(factor_.begin() + begin, factor_.begin() + end),
                        std::accumulate(late_.begin() + begin, late_.begin() + end, 0.0), replica * ranks_};
    }
  }

  void draw_hiccups() {
    if (noise_.hiccup_share <= 0) return;
    std::fill(late_.begin(), late_.end(), 0);
    for (std::int64_t gpu = 0; gpu < gpus(); gpu += job_.gpus_per_node) {
      if (random_.uniform() >= noise_.hiccup_share) continue;
      const std::int64_t last = std::min(gpu + job_.gpus_per_node, gpus()) - 1;
      for (std::int64_t rank = gpu / job_.ranks_per_stage; rank <= last / job_.ranks_per_stage; ++rank)
        late_[static_cast<std::size_t>(rank)] = noise_.hiccup.value;
    }
  }

  double bound(const Pace& pace) const { return std::max(pace.most, 1.0) * quiet_ + pace.latest; }

  /// The last replica's end: those that may be last first.
  double longest() {
    std::sort(pace_.begin(), pace_.end(), [&](const Pace& a, const Pace& b) { return bound(a) > bound(b); });
    double longest = 0;
    for (const Pace& pace : pace_) {
      if (bound(pace) <= longest) break;
      longest = std::max(longest, time_of(pace));
    }
    return longest;
  }

  double time_of(const Pace& pace) {
    const auto at = [&](int stage) {
      return pace.first +
             static_cast<std::size_t>(job_.step->once.rank_of_stage[static_cast<std::size_t>(stage)]);
    };
    const auto stages = static_cast<int>(job_.costs.stages.size());
    bool quiet = true;
    for (int stage = 0; stage < stages; ++stage)
      quiet = quiet && factor_[at(stage)] == 1 && late_[at(stage)] == 0;
    if (quiet) return quiet_;
    Costs costs = job_.costs;
    for (int stage = 0; stage < stages; ++stage) {
      StageCosts& each = costs.stages[static_cast<std::size_t>(stage)];
      for (Seconds* time :
           {&each.forward, &each.backward, &each.backward_input, &each.backward_weight, &each.teacher_forward,
            &each.vocab_forward, &each.vocab_backward, &each.input_forward, &each.input_backward}) {
        *time = factor_[at(stage)] * *time;
      }
      each.first_forward += Seconds{late_[at(stage)]};
    }
    ++simulated_;
    return to_seconds(simulation_.run(costs).makespan);
  }

  const NoiseJob& job_;
  const NoiseModel& noise_;
  TrialRandom random_;
  StepSimulation simulation_;
  std::size_t ranks_;           // of a pipeline
  std::vector<double> factor_;  // of every pipeline rank of every replica
  std::vector<double> late_;
  std::vector<std::int64_t> slow_;  // GPUs, ascending
  std::vector<Pace> pace_;
  double quiet_ = 0;
  std::int64_t simulated_ = 0;
};

}  // namespace

Seconds NoisySteps::mean() const {
  return {std::accumulate(steps.begin(), steps.end(), 0.0) / static_cast<double>(steps.size())};
}

Seconds NoisySteps::percentile(double part) const {
  return {steps[static_cast<std::size_t>(part * static_cast<double>(steps.size() - 1))]};
}

NoisySteps simulate_noise(const NoiseJob& job, const NoiseModel& noise, const NoisePlan& plan) {
  return NoisyJob(job, noise, plan).run(plan.steps);
}

}  // namespace plumbline
