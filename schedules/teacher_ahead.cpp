#include "schedules/teacher_ahead.hpp"

#include <algorithm>
#include <utility>

#include "schedules/layouts.hpp"

namespace plumbline {
namespace {

constexpr double kRoomTolerance = 1e-9;  // of an activation, for sums of fractions

/// Time of the `index`-th in order; infinity while it is to come; the step's start before the first.
double time_of(const std::vector<double>& times, int index) {
  if (index < 0) return 0;
  return index < static_cast<int>(times.size()) ? times[static_cast<std::size_t>(index)]
                                                : std::numeric_limits<double>::infinity();
}

}  // namespace

TeacherAhead::TeacherAhead(int ranks, int microbatches, const DistillationTimes& times,
                           const DistillationRoom& room, const AheadPolicy& policy)
    : ranks_(ranks),
      microbatches_(microbatches),
      times_(times),
      room_(room),
      policy_(policy),
      state_(static_cast<std::size_t>(ranks)) {
  const auto m = static_cast<std::size_t>(microbatches);
  for (std::size_t r = 0; r < state_.size(); ++r) {
    state_[r].split = policy.split && room.may_split[r];
    for (auto& times_of_kind : state_[r].start) times_of_kind.reserve(m);
    for (auto& times_of_kind : state_[r].end) times_of_kind.reserve(m);
    state_[r].order.reserve(kKinds * m);
    state_[r].forwards.reserve(2 * m);
  }
}

bool TeacherAhead::is_turn_of(int rank, Kind kind) const {
  const int ahead = at(rank).done(kTeacher) - at(rank).done(kForward);
  if (rank == 0) return kind == kTeacher ? ahead < policy_.ahead : ahead > 0;
  // As the rank before, whose messages come in its order.
  const std::vector<Kind>& before = at(rank - 1).forwards;
  const std::size_t next = at(rank).forwards.size();
  return next < before.size() && before[next] == kind;
}

double TeacherAhead::teacher_ready(int rank) const {
  const int m = at(rank).done(kTeacher);
  if (given_.empty() && !is_turn_of(rank, kTeacher)) return kNever;
  const double input = rank == 0 ? 0 : time_of(at(rank - 1).end[kTeacher], m) + times_.teacher_transfer.value;
  return is_last(rank) ? input : std::max(input, time_of(at(rank + 1).start[kTeacher], m - 1));
}

bool TeacherAhead::has_room(int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  // If I leaves more behind than F did, there must also be room for the next I.
  const double growth = at(rank).split ? std::max(0.0, room_.deferred[r] - 1) : 0;
  return at(rank).held + 1 + growth <= room_.activations[r] + kRoomTolerance;
}

double TeacherAhead::forward_ready(int rank) const {
  const int m = at(rank).done(kForward);
  if (given_.empty() && !(is_turn_of(rank, kForward) && has_room(rank))) return kNever;
  double input = rank == 0 ? 0 : time_of(at(rank - 1).end[kForward], m) + times_.transfer.value;
  if (!is_last(rank)) return std::max(input, time_of(at(rank + 1).start[kForward], m - 1));
  return std::max(input, time_of(at(rank).end[kTeacher], m));
}

double TeacherAhead::gradient_ready(int rank) const {
  const int m = at(rank).done(kGradient);
  if (m >= at(rank).done(kForward)) return kNever;
  const double input = is_last(rank) ? 0 : time_of(at(rank + 1).end[kGradient], m) + times_.transfer.value;
  return rank == 0 ? input : std::max(input, time_of(at(rank - 1).start[kGradient], m - 1));
}

double TeacherAhead::ready(int rank, Kind kind) const {
  if (at(rank).done(kind) >= microbatches_) return kNever;
  switch (kind) {
    case kGradient:
      return gradient_ready(rank);
    case kForward:
      return forward_ready(rank);
    case kTeacher:
      return teacher_ready(rank);
    case kWeight:
      break;
  }
  return at(rank).split && at(rank).done(kWeight) < at(rank).done(kGradient) ? 0 : kNever;
}

double TeacherAhead::duration(int rank, Kind kind) const {
  const auto r = static_cast<std::size_t>(rank);
  switch (kind) {
    case kGradient:
      return at(rank).split ? times_.backward_input[r].value : times_.backward[r].value;
    case kForward:
      return times_.forward[r].value;
    case kTeacher:
      return times_.teacher[r].value;
    case kWeight:
      break;
  }
  return times_.backward_weight[r].value;
}

TeacherAhead::Choice TeacherAhead::next(int rank) const {
  std::array<Choice, kKinds> choices;
  std::size_t first = 0;
  for (std::size_t k = 0; k < kKinds; ++k) {
    const auto kind = static_cast<Kind>(k);
    choices[k] = {kind, std::max(at(rank).clock, ready(rank, kind))};
    if (choices[k].start < choices[first].start) first = k;
  }
  const Choice& earliest = choices[first];
  if (earliest.start == kNever) return earliest;
  const double bearable = earliest.start + policy_.patience * duration(rank, earliest.kind);
  for (std::size_t k = 0; k < first; ++k) {
    if (choices[k].start < bearable) return choices[k];
  }
  return earliest;
}

TeacherAhead::Choice TeacherAhead::next_given(int rank) const {
  const std::vector<Kind>& given = given_[static_cast<std::size_t>(rank)];
  const std::size_t position = at(rank).order.size();
  if (position >= given.size()) return {};
  return {given[position], std::max(at(rank).clock, ready(rank, given[position]))};
}

void TeacherAhead::start(int rank, const Choice& choice) {
  Rank& here = at(rank);
  here.clock = choice.start + duration(rank, choice.kind);
  here.start[choice.kind].push_back(choice.start);
  here.end[choice.kind].push_back(here.clock);
  here.order.push_back(choice.kind);
  if (choice.kind == kForward || choice.kind == kTeacher) here.forwards.push_back(choice.kind);
  const double deferred = room_.deferred[static_cast<std::size_t>(rank)];
  if (choice.kind == kForward) here.held += 1;
  if (choice.kind == kGradient) here.held -= here.split ? 1 - deferred : 1;
  if (choice.kind == kWeight) here.held -= deferred;
}

double TeacherAhead::run() {
  // Always the rank whose next action starts first; only its neighbours' choices depend on it.
  std::vector<Choice> choices(state_.size());
  const auto choose = [&](int rank) {
    choices[static_cast<std::size_t>(rank)] = given_.empty() ? next(rank) : next_given(rank);
  };
  for (int rank = 0; rank < ranks_; ++rank) choose(rank);
  while (true) {
    const auto first = std::min_element(choices.rbegin(), choices.rend(),
                                        [](const Choice& a, const Choice& b) { return a.start < b.start; });
    if (first->start == kNever) break;
    const int rank = ranks_ - 1 - static_cast<int>(first - choices.rbegin());
    start(rank, *first);
    for (int r = std::max(0, rank - 1); r <= std::min(ranks_ - 1, rank + 1); ++r) choose(r);
  }
  double length = 0;
  for (const Rank& rank : state_) {
    if (rank.done(kGradient) < microbatches_ || (rank.split && rank.done(kWeight) < microbatches_))
      return kNever;
    length = std::max(length, rank.clock);
  }
  return length;
}

double TeacherAhead::play() {
  return run();
}

double TeacherAhead::play(const Schedule& schedule) {
  for (const auto& actions : schedule.actions) {
    std::vector<Kind>& given = given_.emplace_back();
    for (const Action& action : actions) {
      given.push_back(action.type == ActionType::teacher_forward ? kTeacher
                      : action.type == ActionType::forward       ? kForward
                                                                 : kGradient);
    }
  }
  for (Rank& rank : state_) rank.split = false;
  return run();
}

Schedule TeacherAhead::take(const char* name) {
  Schedule schedule = one_stage_per_rank(name, ranks_, microbatches_);
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::vector<Kind>& order = at(rank).order;
    ActionList list(schedule, rank, order.size());
    std::array<int, kKinds> next{};
    for (const Kind kind : order) {
      const ActionType type = kind == kTeacher   ? ActionType::teacher_forward
                              : kind == kForward ? ActionType::forward
                              : kind == kWeight  ? ActionType::backward_weight
                              : at(rank).split   ? ActionType::backward_input
                                                 : ActionType::backward;
      list.add(type, rank, next[kind]++);
    }
  }
  return schedule;
}

}  // namespace plumbline
