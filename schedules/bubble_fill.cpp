// bubble-fill: distillation under 1F1B. The teacher runs ahead where a rank would wait, with at most K
// teacher outputs kept on the last stage. Backwards are split: input gradients (I) go up the pipeline first,
// weight gradients (W) fill the rest of its bubbles (Qi et al. 2023, arXiv:2401.10241).
//
// The order is that of the shortest of several steps, simulated with the given times (teacher_ahead.hpp).
// Candidates are greedy orders, abeja's, and, with room for all outputs, nemo-2504's; so it is never slower
// than these two. Greedy orders vary the teacher's lead (1, 2, 4, … K outputs), the ranks' readiness to
// wait for something urgent, and backwards split or whole. A rank holds at most the activations that `room`
// allows, from F until W.
//
// With equal stages, messages that take no time, M large enough and P activations per rank, the makespan is
//   M(f_T + f_S + b + w) + (P-1)(max(f_T, f_S) + b - w)   for b >= w,
// where nemo-2504 needs (P-1)(max(f_T, f_S) + b + w) besides the work of its M micro-batches; with 1F1B's P-r
// activations on rank r it is (P-1)(max(f_T, f_S) + b). Without a split backward nemo-2504's time is the
// least possible when every rank holds its first activation until its first B.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/base/error.hpp"
#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"
#include "schedules/teacher_ahead.hpp"

namespace plumbline {
namespace {

constexpr const char* kName = "bubble-fill";
constexpr double kPatience[] = {0, 0.3, 1};

/// Lead of the teacher to try: powers of two and the allowed maximum, of which more than two per rank is
/// rarely useful. Larger ones first: equally long steps are then those with the most slack.
std::vector<std::int64_t> distances(int ranks, int microbatches, std::int64_t cached) {
  const std::int64_t most = std::min({cached, std::int64_t{microbatches}, std::int64_t{2} * ranks});
  std::vector<std::int64_t> list = {most};
  std::int64_t power = 1;
  while (2 * power < most) power *= 2;
  for (; power >= 1 && power < most; power /= 2) list.push_back(power);
  return list;
}

/// Keeps the shortest of the steps it is shown; of equally long ones the first.
class Shortest {
 public:
  Shortest(int ranks, int microbatches, const DistillationTimes& times, const DistillationRoom& room)
      : ranks_(ranks), microbatches_(microbatches), times_(times), room_(room) {}

  void consider(const AheadPolicy& policy) {
    TeacherAhead step(ranks_, microbatches_, times_, room_, policy);
    keep(step, step.play());
  }
  void consider(const Schedule& schedule) {
    TeacherAhead step(ranks_, microbatches_, times_, room_, {});
    keep(step, step.play(schedule));
  }
  const Schedule& best() const { return best_; }

 private:
  void keep(TeacherAhead& step, double length) {
    // A difference of rounding is none: the choice must not depend on it.
    if (!(length < length_ * (1 - 1e-9))) return;
    length_ = length;
    best_ = step.take(kName);
  }

  int ranks_;
  int microbatches_;
  const DistillationTimes& times_;
  const DistillationRoom& room_;
  double length_ = std::numeric_limits<double>::max();
  Schedule best_;
};

/// The first rank sends no gradient: there I and W that follow each other are as well one B.
void merge_on_first_rank(Schedule& schedule) {
  std::vector<Action>& actions = schedule.actions.front();
  std::vector<Action> merged;
  merged.reserve(actions.size());
  for (std::size_t i = 0; i < actions.size(); ++i) {
    Action action = actions[i];
    const bool together = action.type == ActionType::backward_input && i + 1 < actions.size() &&
                          actions[i + 1].type == ActionType::backward_weight &&
                          actions[i + 1].microbatch == action.microbatch;
    if (together) {
      action.type = ActionType::backward;
      ++i;
    }
    merged.push_back(action);
  }
  actions = std::move(merged);
}

void check(int ranks, std::int64_t cached, const DistillationTimes& times, const DistillationRoom& room) {
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
  const bool whole = times.backward_input.empty() && times.backward_weight.empty();
  if (!whole && (times.backward_input.size() != expected || times.backward_weight.size() != expected)) {
    throw InputError(fmt::format("schedule bubble-fill: times of I and W of {} and {} ranks; expected {}",
                                 times.backward_input.size(), times.backward_weight.size(), ranks));
  }
  if (room.activations.size() != expected || room.deferred.size() != expected ||
      room.may_split.size() != expected) {
    throw InputError(fmt::format("schedule bubble-fill: room of {}, {} and {} ranks; expected {}",
                                 room.activations.size(), room.deferred.size(), room.may_split.size(),
                                 ranks));
  }
}

}  // namespace

DistillationRoom room_of_one_f_one_b(int ranks) {
  DistillationRoom room;
  for (int rank = 0; rank < ranks; ++rank) room.activations.push_back(ranks - rank);
  room.deferred.assign(room.activations.size(), 1);
  room.may_split.assign(room.activations.size(), true);
  return room;
}

Schedule distillation_bubble_fill(int ranks, int microbatches, std::int64_t cached,
                                  const DistillationTimes& times, const DistillationRoom& room) {
  check_sizes(kName, ranks, microbatches, 1);
  check(ranks, cached, times, room);
  Shortest shortest(ranks, microbatches, times, room);
  const std::vector<std::int64_t> all = distances(ranks, microbatches, cached);
  // Whole backwards first: splitting must be worth it.
  for (const std::int64_t ahead : all) shortest.consider({ahead, false, 0});
  shortest.consider(distillation_abeja(ranks, microbatches));
  if (cached >= microbatches) shortest.consider(distillation_nemo_2504(ranks, microbatches));
  if (!times.backward_input.empty()) {
    for (const double patience : kPatience) {
      for (const std::int64_t ahead : all) shortest.consider({ahead, true, patience});
    }
  }
  Schedule schedule = shortest.best();
  merge_on_first_rank(schedule);
  return schedule;
}

Schedule distillation_bubble_fill(int ranks, int microbatches, std::int64_t cached,
                                  const DistillationTimes& times) {
  return distillation_bubble_fill(ranks, microbatches, cached, times, room_of_one_f_one_b(ranks));
}

}  // namespace plumbline
