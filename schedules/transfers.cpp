// The pass that inserts transfers. It runs the schedule with every transfer as a meeting of two ranks, and
// writes down on both sides the order in which the meetings happen: a program in that order cannot deadlock,
// whether the transfers block one by one or in groups, since one order of meetings serves all ranks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "core/dependency_walk.hpp"
#include "core/error.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
namespace {

bool is_transfer(ActionType type) {
  return is_send(type) || is_receive(type);
}

enum class Hop : std::uint8_t { forward, backward, teacher };

Hop hop_of(ActionType type) {
  if (type == ActionType::send_forward || type == ActionType::receive_forward) return Hop::forward;
  if (type == ActionType::send_backward || type == ActionType::receive_backward) return Hop::backward;
  return Hop::teacher;
}

/// Appends what `action` receives before it runs, or sends after.
class Inserter {
 public:
  explicit Inserter(const Schedule& schedule) : schedule_(schedule) {
    for (const auto& actions : schedule.actions) {
      for (const Action& action : actions) teacher_ |= action.type == ActionType::teacher_forward;
    }
  }

  void before(const Action& action, std::vector<Action>& out) const {
    if (consumes_activation(action.type) && receives(action.stage, action.stage - 1)) {
      out.push_back({ActionType::receive_forward, false, action.stage, action.microbatch});
    } else if (action.type == ActionType::teacher_forward && !schedule_.joint_teacher &&
               receives(action.stage, action.stage - 1)) {
      out.push_back({ActionType::receive_teacher, false, action.stage, action.microbatch});
    } else if (is_backward(action.type) && receives(action.stage, action.stage + 1)) {
      out.push_back({ActionType::receive_backward, false, action.stage, action.microbatch});
    }
  }

  void after(const Action& action, std::vector<Action>& out) const {
    if (action.type == ActionType::forward && receives(action.stage + 1, action.stage)) {
      out.push_back({ActionType::send_forward, false, action.stage, action.microbatch});
    } else if (action.type == ActionType::teacher_forward && !schedule_.joint_teacher &&
               receives(action.stage + 1, action.stage)) {
      out.push_back({ActionType::send_teacher, false, action.stage, action.microbatch});
    } else if (is_backward(action.type) && receives(action.stage - 1, action.stage)) {
      out.push_back({ActionType::send_backward, false, action.stage, action.microbatch});
    }
  }

 private:
  /// A joint message is received before the teacher's part, which comes first on every rank.
  bool consumes_activation(ActionType type) const {
    const bool joint = schedule_.joint_teacher && teacher_;
    return type == (joint ? ActionType::teacher_forward : ActionType::forward);
  }
  static bool is_backward(ActionType type) {
    return type == ActionType::backward || type == ActionType::backward_input;
  }
  bool receives(int stage, int from) const {
    if (stage < 0 || from < 0 || stage >= schedule_.stages || from >= schedule_.stages) return false;
    if (stage / schedule_.stages_per_route() != from / schedule_.stages_per_route()) return false;
    return schedule_.crosses_ranks(stage, from);
  }

  const Schedule& schedule_;
  bool teacher_ = false;
};

std::vector<Action> with_transfers(const Inserter& inserter, const std::vector<Action>& actions) {
  std::vector<Action> out;
  out.reserve(actions.size() * 3);
  for (std::size_t first = 0; first < actions.size();) {
    std::size_t last = first;
    while (actions[last].overlaps_next) ++last;
    for (std::size_t i = first; i <= last; ++i) inserter.before(actions[i], out);
    out.insert(out.end(), actions.begin() + static_cast<std::ptrdiff_t>(first),
               actions.begin() + static_cast<std::ptrdiff_t>(last) + 1);
    for (std::size_t i = first; i <= last; ++i) inserter.after(actions[i], out);
    first = last + 1;
  }
  return out;
}

/// Runs programs whose neighbouring transfers form groups, and records the meetings.
class Meetings {
 public:
  Meetings(const Schedule& schedule, std::vector<std::vector<Action>> programs)
      : schedule_(schedule), programs_(std::move(programs)), ranks_(programs_.size()) {
    const auto cells =
        static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(schedule.microbatches);
    for (auto& state : state_) state.assign(cells, State::unseen);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      ranks_[r].out.reserve(programs_[r].size());
      ready_.push_back(static_cast<int>(r));
    }
  }

  std::vector<std::vector<Action>> run() {
    do {
      while (!ready_.empty()) {
        const int rank = ready_.back();
        ready_.pop_back();
        advance(rank);
      }
    } while (receive_early());
    std::vector<std::vector<Action>> out;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].cursor < programs_[r].size() || ranks_[r].open > 0) {
        throw InputError(
            fmt::format("schedule {}: rank {} never gets past {}; the order of actions cannot run",
                        schedule_.name, r, to_string(programs_[r][ranks_[r].group])));
      }
      out.push_back(std::move(ranks_[r].out));
    }
    return out;
  }

 private:
  enum class State : std::uint8_t { unseen, half, done };
  struct Rank {
    std::size_t cursor = 0;  // next action of the program
    std::size_t group = 0;   // where the current group begins
    int open = 0;            // transfers of the group still to happen
    std::vector<Action> out;
  };

  /// Both halves of a transfer, seen from either.
  struct Both {
    Action send;
    Action receive;
    int sender;
    int receiver;
  };
  Both both(const Action& half) const {
    static constexpr std::array<std::pair<ActionType, ActionType>, 3> kTypes = {
        {{ActionType::send_forward, ActionType::receive_forward},
         {ActionType::send_backward, ActionType::receive_backward},
         {ActionType::send_teacher, ActionType::receive_teacher}}};
    const Hop hop = hop_of(half.type);
    const int step = hop == Hop::backward ? -1 : 1;
    const int from = is_send(half.type) ? half.stage : half.stage - step;
    const auto& types = kTypes[static_cast<std::size_t>(hop)];
    return {{types.first, false, static_cast<std::uint16_t>(from), half.microbatch},
            {types.second, false, static_cast<std::uint16_t>(from + step), half.microbatch},
            schedule_.rank_of_stage[static_cast<std::size_t>(from)],
            schedule_.rank_of_stage[static_cast<std::size_t>(from + step)]};
  }
  State& state(const Action& half) {
    const Hop hop = hop_of(half.type);
    const int from = is_send(half.type) ? half.stage : half.stage - (hop == Hop::backward ? -1 : 1);
    return state_[static_cast<std::size_t>(hop)]
                 [static_cast<std::size_t>(from) * static_cast<std::size_t>(schedule_.microbatches) +
                  half.microbatch];
  }

  void meet(const Both& transfer) {
    ranks_[static_cast<std::size_t>(transfer.sender)].out.push_back(transfer.send);
    ranks_[static_cast<std::size_t>(transfer.receiver)].out.push_back(transfer.receive);
  }

  void advance(int rank) {
    Rank& me = ranks_[static_cast<std::size_t>(rank)];
    const auto& program = programs_[static_cast<std::size_t>(rank)];
    while (me.open == 0 && me.cursor < program.size()) {
      if (!is_transfer(program[me.cursor].type)) {
        me.out.push_back(program[me.cursor++]);
        continue;
      }
      me.group = me.cursor;
      for (; me.cursor < program.size() && is_transfer(program[me.cursor].type); ++me.cursor) {
        const Action& half = program[me.cursor];
        State& seen = state(half);
        if (seen == State::done) continue;  // received early
        if (seen == State::unseen) {
          seen = State::half;
          ++me.open;
          continue;
        }
        seen = State::done;
        const Both transfer = both(half);
        meet(transfer);
        const int partner = transfer.sender == rank ? transfer.receiver : transfer.sender;
        if (--ranks_[static_cast<std::size_t>(partner)].open == 0) ready_.push_back(partner);
      }
    }
  }

  /// All ranks wait. Lets one receiver take a message before its turn: the one nearest to its turn.
  bool receive_early() {
    const Action* best = nullptr;
    std::size_t best_distance = std::numeric_limits<std::size_t>::max();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].open == 0) continue;
      for (std::size_t i = ranks_[r].group; i < ranks_[r].cursor; ++i) {
        const Action& half = programs_[r][i];
        if (!is_send(half.type) || state(half) != State::half) continue;
        const Both transfer = both(half);
        const auto receiver = static_cast<std::size_t>(transfer.receiver);
        const auto& program = programs_[receiver];
        const std::size_t limit =
            std::min(program.size(), best_distance == std::numeric_limits<std::size_t>::max()
                                         ? program.size()
                                         : ranks_[receiver].cursor + best_distance);
        for (std::size_t p = ranks_[receiver].cursor; p < limit; ++p) {
          if (program[p] == transfer.receive) {
            best = &half;
            best_distance = p - ranks_[receiver].cursor;
            break;
          }
        }
      }
    }
    if (best == nullptr) return false;
    state(*best) = State::done;
    const Both transfer = both(*best);
    meet(transfer);
    if (--ranks_[static_cast<std::size_t>(transfer.sender)].open == 0) ready_.push_back(transfer.sender);
    return true;
  }

  const Schedule& schedule_;
  std::vector<std::vector<Action>> programs_;
  std::vector<Rank> ranks_;
  std::array<std::vector<State>, 3> state_;  // by hop, sending stage, micro-batch
  std::vector<int> ready_;
};

void put_sends_first(std::vector<Action>& actions) {
  for (auto at = actions.begin(); at != actions.end();) {
    const auto begin = std::find_if(at, actions.end(), [](const Action& a) { return is_transfer(a.type); });
    const auto end = std::find_if(begin, actions.end(), [](const Action& a) { return !is_transfer(a.type); });
    std::stable_partition(begin, end, [](const Action& a) { return is_send(a.type); });
    at = end;
  }
}

}  // namespace

Schedule add_transfers(const Schedule& schedule, TransferOrder order) {
  check_ranges(schedule);
  Schedule result = drop_transfers(schedule);
  const Inserter inserter(result);
  std::vector<std::vector<Action>> programs;
  programs.reserve(result.actions.size());
  for (const auto& actions : result.actions) programs.push_back(with_transfers(inserter, actions));
  result.actions = Meetings(result, std::move(programs)).run();
  if (order == TransferOrder::sends_first) {
    for (auto& actions : result.actions) put_sends_first(actions);
  }
  return result;
}

Schedule drop_transfers(const Schedule& schedule) {
  Schedule result = schedule;
  for (auto& actions : result.actions) {
    std::erase_if(actions, [](const Action& action) { return is_transfer(action.type); });
  }
  return result;
}

}  // namespace plumbline
