// bubble-fill: distillation under 1F1B whose teacher runs ahead where a rank would wait, with at most K
// teacher outputs kept on the last stage. Every rank does, when it is free, the first of these that can
// start:
//   B, as soon as the next stage's is done;
//   F of the next micro-batch, if the rank holds fewer than 1F1B's P-r activations and its TF of the same
//     micro-batch is done;
//   TF of the next micro-batch; on the last stage only while fewer than K outputs wait for their loss.
// A result is made only once the next rank has taken the one before, as one send buffer per stage wants it.
// Order by a simulation with the given times. K = 1 orders the work as abeja does; with equal stages and K
// large enough the makespan is M(f_T + f_S + B) + (P-1)(max(f_T, f_S) + B), that of nemo-2504, which keeps M
// outputs; between F and the next B there is a TF, so that messages between ranks are hidden where nemo-2504
// waits.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/error.hpp"
#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"

namespace plumbline {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a rank has done: starts and ends by micro-batch.
struct Rank {
  double clock = 0;
  std::vector<double> teacher_start, teacher_end, forward_start, forward_end, backward_end;

  int teachers() const { return static_cast<int>(teacher_end.size()); }
  int forwards() const { return static_cast<int>(forward_end.size()); }
  int backwards() const { return static_cast<int>(backward_end.size()); }
};

double at(const std::vector<double>& times, int microbatch) {
  return microbatch < static_cast<int>(times.size()) ? times[static_cast<std::size_t>(microbatch)] : kNever;
}

class Filling {
 public:
  Filling(int ranks, int microbatches, std::int64_t cached, const DistillationTimes& times)
      : ranks_(ranks), microbatches_(microbatches), cached_(cached), times_(times), state_(ranks) {}

  Schedule order() {
    Schedule schedule = one_stage_per_rank("bubble-fill", ranks_, microbatches_);
    for (std::int64_t left = std::int64_t{3} * ranks_ * microbatches_; left > 0; --left) {
      int rank = 0;
      Choice best;
      for (int r = ranks_ - 1; r >= 0; --r) {
        const Choice choice = next_of(r);
        if (choice.start < best.start) {
          best = choice;
          rank = r;
        }
      }
      const int microbatch = run(rank, best);
      ActionList(schedule, rank, 0).add(best.type, rank, microbatch);
    }
    return schedule;
  }

 private:
  struct Choice {
    ActionType type = ActionType::teacher_forward;
    double start = kNever;
  };

  const Rank& rank(int r) const { return state_[static_cast<std::size_t>(r)]; }
  bool is_last(int r) const { return r == ranks_ - 1; }

  /// When the next rank has taken the result before `microbatch`'s.
  static double taken(const std::vector<double>& starts, int microbatch) {
    return microbatch == 0 ? 0 : at(starts, microbatch - 1);
  }

  double backward_ready(int r) const {
    const int m = rank(r).backwards();
    if (m >= rank(r).forwards()) return kNever;
    return is_last(r) ? at(rank(r).forward_end, m) : at(rank(r + 1).backward_end, m);
  }
  double forward_ready(int r) const {
    const int m = rank(r).forwards();
    if (m >= microbatches_ || m >= rank(r).teachers() || m - rank(r).backwards() >= ranks_ - r) return kNever;
    const double input = r == 0 ? 0 : at(rank(r - 1).forward_end, m);
    return is_last(r) ? input : std::max(input, taken(rank(r + 1).forward_start, m));
  }
  double teacher_ready(int r) const {
    const int m = rank(r).teachers();
    if (m >= microbatches_) return kNever;
    const double input = r == 0 ? 0 : at(rank(r - 1).teacher_end, m);
    if (is_last(r)) return m - rank(r).forwards() >= cached_ ? kNever : input;
    return std::max(input, taken(rank(r + 1).teacher_start, m));
  }

  Choice next_of(int r) const {
    const Choice choices[] = {{ActionType::backward, std::max(rank(r).clock, backward_ready(r))},
                              {ActionType::forward, std::max(rank(r).clock, forward_ready(r))},
                              {ActionType::teacher_forward, std::max(rank(r).clock, teacher_ready(r))}};
    return *std::min_element(std::begin(choices), std::end(choices),
                             [](const Choice& a, const Choice& b) { return a.start < b.start; });
  }

  /// Returns the micro-batch.
  int run(int r, const Choice& choice) {
    Rank& here = state_[static_cast<std::size_t>(r)];
    const auto took = [&](const std::vector<Seconds>& times) {
      return choice.start + times[static_cast<std::size_t>(r)].value;
    };
    if (choice.type == ActionType::backward) {
      here.clock = took(times_.backward);
      here.backward_end.push_back(here.clock);
      return here.backwards() - 1;
    }
    const bool teacher = choice.type == ActionType::teacher_forward;
    here.clock = took(teacher ? times_.teacher : times_.forward);
    (teacher ? here.teacher_start : here.forward_start).push_back(choice.start);
    (teacher ? here.teacher_end : here.forward_end).push_back(here.clock);
    return (teacher ? here.teachers() : here.forwards()) - 1;
  }

  int ranks_;
  int microbatches_;
  std::int64_t cached_;
  const DistillationTimes& times_;
  std::vector<Rank> state_;
};

}  // namespace

Schedule distillation_bubble_fill(int ranks, int microbatches, std::int64_t cached,
                                  const DistillationTimes& times) {
  check_sizes("bubble-fill", ranks, microbatches, 1);
  if (cached < 1) {
    throw InputError(
        fmt::format("schedule bubble-fill: {} cached teacher outputs; expected at least 1", cached));
  }
  const auto expected = static_cast<std::size_t>(ranks);
  if (times.teacher.size() != expected || times.forward.size() != expected ||
      times.backward.size() != expected) {
    throw InputError(fmt::format("schedule bubble-fill: times of {}, {} and {} ranks; expected {}",
                                 times.teacher.size(), times.forward.size(), times.backward.size(), ranks));
  }
  return Filling(ranks, microbatches, cached, times).order();
}

}  // namespace plumbline
