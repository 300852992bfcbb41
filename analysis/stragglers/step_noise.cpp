#include "analysis/stragglers/step_noise.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <numeric>

#include "analysis/reliability/trial_random.hpp"
#include "analysis/simulate/step_simulation.hpp"

namespace plumbline {
namespace {

/// Slow parts of a pipeline in one step, by pipeline rank.
struct Pace {
  double most = 1;        // the largest factor
  double latest = 0;      // the sum of all lateness: an upper bound of the step's delay
  std::size_t first = 0;  // where its ranks begin in the lists
};

/// A pipeline rank in one step, at the pace of the slowest of its GPUs.
struct RankNoise {
  ByNoiseKind factor{1, 1, 1};
  double link = 1;
  double late = 0;
  bool quiet() const { return factor == ByNoiseKind{1, 1, 1} && link == 1 && late == 0; }
};

/// The pipeline that was last in a step.
struct LastPipeline {
  double time = 0;
  int replica = 0;
  std::vector<RankNoise> ranks;
};

constexpr std::array<std::string_view, kNoiseKinds> kKindNames = {"forward", "backward", "weight"};

class NoisyJob {
 public:
  NoisyJob(const NoiseJob& job, const NoiseModel& noise, const NoisePlan& plan)
      : job_(job),
        noise_(noise),
        costs_(job.costs),
        random_(plan.seed, 0),
        simulation_(*job.step),
        ranks_(static_cast<std::size_t>(job.step->once.ranks)),
        noise_of_(ranks_ * static_cast<std::size_t>(job.replicas)) {
    draw_slow(plan.replaced);
    draw_slow_links();
    pace_.resize(static_cast<std::size_t>(job.replicas));
  }

  NoisySteps run(int steps) {
    NoisySteps result;
    result.quiet = {to_seconds(simulation_.run(job_.costs).makespan)};
    quiet_ = to_seconds(simulation_.run(costs_).makespan);
    simulated_ = 1;
    std::vector<LastPipeline> last;
    last.reserve(static_cast<std::size_t>(steps));
    // Slow parts are the same in every step; without jitter and hiccups all steps are alike.
    const bool alike = !noise_.jitters() && noise_.hiccup_share <= 0;
    for (int step = 0; step < steps; ++step) {
      if (!alike || step == 0) draw_step();
      last.push_back(alike && step > 0 ? last.front() : longest());
    }
    std::sort(last.begin(), last.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
    result.steps.reserve(last.size());
    for (const LastPipeline& each : last) result.steps.push_back(each.time);
    result.slow_gpus = static_cast<std::int64_t>(slow_.size());
    result.simulated = simulated_;
    blame(last[(last.size() - 1) / 2], result);
    return result;
  }

 private:
  static double to_seconds(Ticks ticks) { return seconds_of(ticks).value; }

  std::int64_t gpus() const { return static_cast<std::int64_t>(noise_of_.size()) * job_.ranks_per_stage; }

  /// Places of slow GPUs. All are equally slow, so only their number per pipeline matters: the fullest ones
  /// lose theirs first.
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

  /// Slow ports, and the reductions of gradients that go through one, of whichever replica.
  void draw_slow_links() {
    if (noise_.slow_link_share <= 0) return;
    std::vector<bool> reduced(ranks_);
    for (std::size_t rank = 0; rank < noise_of_.size(); ++rank) {
      for (int i = 0; i < job_.ranks_per_stage; ++i) {
        if (random_.uniform() >= noise_.slow_link_share) continue;
        noise_of_[rank].link = noise_.slow_link_factor;
        reduced[rank % ranks_] = true;
      }
    }
    if (job_.replicas < 2) return;
    for (std::size_t stage = 0; stage < costs_.stages.size(); ++stage) {
      const auto rank = static_cast<std::size_t>(job_.step->once.rank_of_stage[stage]);
      if (reduced[rank])
        costs_.stages[stage].reduce_gradients =
            noise_.slow_link_factor * costs_.stages[stage].reduce_gradients;
    }
    if (std::find(reduced.begin(), reduced.end(), true) != reduced.end())
      costs_.reduce_gradients = noise_.slow_link_factor * costs_.reduce_gradients;
  }

  /// Factors of one GPU, drawn for this step.
  ByNoiseKind draw_gpu() {
    const double own = noise_.jitter > 0 ? std::exp(noise_.jitter * random_.normal()) : 1;
    ByNoiseKind factors{own, own, own};
    for (std::size_t kind = 0; kind < kNoiseKinds; ++kind) {
      const double deviation = noise_.kind_jitter[kind];
      if (deviation > 0) factors[kind] *= std::exp(deviation * random_.normal());
    }
    return factors;
  }

  /// Factors and lateness of one step.
  void draw_step() {
    std::size_t next_slow = 0;
    std::int64_t gpu = 0;
    for (RankNoise& rank : noise_of_) {
      rank.factor = noise_.jitters() ? ByNoiseKind{} : ByNoiseKind{1, 1, 1};
      rank.late = 0;
      for (int i = 0; i < job_.ranks_per_stage; ++i, ++gpu) {
        const bool slow = next_slow < slow_.size() && slow_[next_slow] == gpu;
        next_slow += slow ? 1 : 0;
        if (!slow && !noise_.jitters()) continue;
        const ByNoiseKind own = draw_gpu();
        for (std::size_t kind = 0; kind < kNoiseKinds; ++kind)
          rank.factor[kind] = std::max(rank.factor[kind], (slow ? noise_.slow_factor : 1) * own[kind]);
      }
    }
    draw_hiccups();
    for (std::size_t replica = 0; replica < pace_.size(); ++replica) {
      Pace& pace = pace_[replica];
      pace = {1, 0, replica * ranks_};
      for (std::size_t rank = pace.first; rank < pace.first + ranks_; ++rank) {
        const RankNoise& each = noise_of_[rank];
        pace.most =
            std::max({pace.most, each.link, *std::max_element(each.factor.begin(), each.factor.end())});
        pace.latest += each.late;
      }
    }
  }

  void draw_hiccups() {
    if (noise_.hiccup_share <= 0) return;
    for (std::int64_t gpu = 0; gpu < gpus(); gpu += job_.gpus_per_node) {
      if (random_.uniform() >= noise_.hiccup_share) continue;
      const std::int64_t last = std::min(gpu + job_.gpus_per_node, gpus()) - 1;
      for (std::int64_t rank = gpu / job_.ranks_per_stage; rank <= last / job_.ranks_per_stage; ++rank)
        noise_of_[static_cast<std::size_t>(rank)].late = noise_.hiccup.value;
    }
  }

  double bound(const Pace& pace) const { return pace.most * quiet_ + pace.latest; }

  /// The last replica's end: those that may be last first.
  LastPipeline longest() {
    std::sort(pace_.begin(), pace_.end(), [&](const Pace& a, const Pace& b) { return bound(a) > bound(b); });
    LastPipeline last;
    std::size_t first = pace_.front().first;
    for (const Pace& pace : pace_) {
      if (bound(pace) <= last.time) break;
      const double time = time_of(&noise_of_[pace.first]);
      if (time <= last.time) continue;
      last.time = time;
      first = pace.first;
    }
    last.replica = static_cast<int>(first / ranks_);
    const auto begin = noise_of_.begin() + static_cast<std::ptrdiff_t>(first);
    last.ranks.assign(begin, begin + static_cast<std::ptrdiff_t>(ranks_));
    return last;
  }

  /// A pipeline of such ranks, `ranks_` of them.
  double time_of(const RankNoise* ranks) {
    bool quiet = true;
    bool links = false;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      quiet = quiet && ranks[rank].quiet();
      links = links || ranks[rank].link != 1;
    }
    if (quiet) return quiet_;
    Costs costs = costs_;
    for (std::size_t stage = 0; stage < costs.stages.size(); ++stage) {
      const RankNoise& noise = ranks[static_cast<std::size_t>(job_.step->once.rank_of_stage[stage])];
      StageCosts& each = costs.stages[stage];
      const auto lengthen = [&](NoiseKind kind, std::initializer_list<Seconds*> times) {
        for (Seconds* time : times) *time = noise.factor[static_cast<std::size_t>(kind)] * *time;
      };
      lengthen(NoiseKind::forward,
               {&each.forward, &each.teacher_forward, &each.vocab_forward, &each.input_forward});
      lengthen(NoiseKind::backward,
               {&each.backward, &each.backward_input, &each.vocab_backward, &each.input_backward});
      lengthen(NoiseKind::weight, {&each.backward_weight});
      each.first_forward += Seconds{noise.late};
    }
    if (links) {
      costs.slow_links.reserve(ranks_);
      for (std::size_t rank = 0; rank < ranks_; ++rank) costs.slow_links.push_back(ranks[rank].link);
    }
    ++simulated_;
    return to_seconds(simulation_.run(costs).makespan);
  }

  /// Each kind of noise of each rank of a pipeline taken away by itself.
  void blame(const LastPipeline& last, NoisySteps& result) {
    result.last_replica = last.replica;
    std::vector<RankNoise> without = last.ranks;
    const auto look = [&](std::size_t rank, std::string_view what) {
      const double cost = last.time - time_of(without.data());
      without[rank] = last.ranks[rank];
      if (cost > 0) result.blame.push_back({static_cast<int>(rank), what, {cost}});
    };
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      for (std::size_t kind = 0; kind < kNoiseKinds; ++kind) {
        if (without[rank].factor[kind] <= 1) continue;
        without[rank].factor[kind] = 1;
        look(rank, kKindNames[kind]);
      }
      if (without[rank].link > 1) {
        without[rank].link = 1;
        look(rank, "messages");
      }
      if (without[rank].late > 0) {
        without[rank].late = 0;
        look(rank, "late");
      }
    }
    std::stable_sort(result.blame.begin(), result.blame.end(),
                     [](const NoiseBlame& a, const NoiseBlame& b) { return a.cost > b.cost; });
  }

  const NoiseJob& job_;
  const NoiseModel& noise_;
  Costs costs_;  // of a quiet pipeline, reductions as slow as their slowest port
  TrialRandom random_;
  StepSimulation simulation_;
  std::size_t ranks_;                // of a pipeline
  std::vector<RankNoise> noise_of_;  // every pipeline rank of every replica
  std::vector<std::int64_t> slow_;   // GPUs, ascending
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
