// The pass that inserts transfers. It runs the schedule with every transfer as a meeting of two ranks, and
// records on both sides the order of the meetings. A program in that order cannot deadlock, whether the
// transfers block one by one or in groups, since one order of meetings serves all ranks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/schedule/dependency_walk.hpp"
#include "core/schedule/hop.hpp"
#include "core/validate/blocked_cycle.hpp"
#include "schedules/passes.hpp"

namespace plumbline {
namespace {

/// Appends the receives of `action` before it, or its sends after it.
class Inserter {
 public:
  explicit Inserter(const Schedule& schedule) : joint_(schedule.joint_teacher) {
    for (const auto& actions : schedule.actions) {
      for (const Action& action : actions) teacher_ |= action.type == ActionType::teacher_forward;
    }
    for (int stage = 0; stage < schedule.stages; ++stage) {
      for (const Payload payload : kAllPayloads) {
        comes_.push_back(hop_to(schedule, stage, payload, 0).has_value());
        goes_.push_back(hop_from(schedule, stage, payload, 0).has_value());
      }
    }
  }

  /// Actions of a rank with its transfers.
  std::int64_t count(const std::vector<Action>& actions) const {
    std::int64_t count = 0;
    for (const Action& action : actions) count += 1 + (taken(action) ? 1 : 0) + (given(action) ? 1 : 0);
    return count;
  }

  void before(const Action& action, std::vector<Action>& out) const {
    if (const auto payload = taken(action))
      out.push_back(receive_of({action.stage - step_of(*payload), *payload, action.microbatch}));
  }

  void after(const Action& action, std::vector<Action>& out) const {
    if (const auto payload = given(action))
      out.push_back(send_of({action.stage, *payload, action.microbatch}));
  }

 private:
  static std::size_t place(const Action& action, Payload payload) {
    return static_cast<std::size_t>(action.stage) * kPayloads + static_cast<std::size_t>(payload);
  }

  /// Payload that an action waits for from another rank. A joint message is received before the teacher's
  /// part, which comes first on every rank.
  std::optional<Payload> taken(const Action& action) const {
    std::optional<Payload> payload = payload_of(action.type);
    if (joint_ && teacher_ && action.type == ActionType::teacher_forward) payload = Payload::activation;
    if (joint_ && teacher_ && action.type == ActionType::forward) payload.reset();
    return payload && comes_[place(action, *payload)] ? payload : std::nullopt;
  }

  /// Payload that another rank waits for from an action.
  std::optional<Payload> given(const Action& action) const {
    const std::optional<Payload> payload = is_compute(action.type) ? payload_of(action.type) : std::nullopt;
    if (!payload || (joint_ && *payload == Payload::teacher)) return std::nullopt;
    return goes_[place(action, *payload)] ? payload : std::nullopt;
  }

  bool joint_;
  bool teacher_ = false;
  std::vector<bool> comes_;  // by stage and payload: from another rank
  std::vector<bool> goes_;   // by stage and payload: to another rank
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

/// Records the events of a walk in which neighbouring transfers form groups: computing when it is done,
/// transfers when both sides have reached them.
class Recorder {
 public:
  explicit Recorder(const Schedule& schedule)
      : schedule_(schedule), microbatches_(schedule.microbatches), out_(schedule.actions.size()) {
    const auto cells =
        static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(schedule.microbatches);
    for (auto& half : half_) half.assign(cells, 0);
    for (std::size_t r = 0; r < out_.size(); ++r) out_[r].reserve(schedule.actions[r].size());
  }

  static std::int32_t wait(int /*rank*/, std::int32_t /*node*/) { return 0; }
  std::int32_t place(int rank, int position, std::int32_t /*node*/) {
    const Action& action =
        schedule_.actions[static_cast<std::size_t>(rank)][static_cast<std::size_t>(position)];
    if (!is_transfer(action.type)) out_[static_cast<std::size_t>(rank)].push_back(action);
    return 0;
  }
  std::pair<std::int32_t, std::int32_t> place_pair(int rank, int position, std::int32_t /*node*/) {
    place(rank, position, 0);
    place(rank, position + 1, 0);
    return {0, 0};
  }
  std::int32_t join(Signal signal, std::int32_t index, std::int32_t /*node*/) {
    const std::optional<Payload> payload = message_of(signal);
    // The second arrival; a third comes when a message was received early.
    if (payload && ++half_[static_cast<std::size_t>(*payload)][static_cast<std::size_t>(index)] == 2) {
      meet({index / microbatches_, *payload, static_cast<std::uint32_t>(index % microbatches_)});
    }
    return 0;
  }

  std::vector<std::vector<Action>> take() { return std::move(out_); }

 private:
  void meet(const Hop& hop) {
    const auto [from, to] = channel_of(schedule_, hop);
    out_[static_cast<std::size_t>(from)].push_back(send_of(hop));
    out_[static_cast<std::size_t>(to)].push_back(receive_of(hop));
  }

  const Schedule& schedule_;
  int microbatches_;
  std::vector<std::vector<Action>> out_;
  std::array<std::vector<std::uint8_t>, kPayloads>
      half_;  // by payload, sending stage and micro-batch: how many have come
};

/// All ranks wait: the SEND whose receiver is nearest to its turn, or nothing.
const Action* nearest_waiting_send(const Schedule& schedule, DependencyWalk& walk) {
  const Action* best = nullptr;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (std::size_t r = 0; r < schedule.actions.size(); ++r) {
    const auto& actions = schedule.actions[r];
    for (std::size_t i = walk.stopped_at()[r]; i < actions.size() && is_transfer(actions[i].type); ++i) {
      if (!is_send(actions[i].type) || !walk.half_open(actions[i])) continue;
      const Action receive = receive_of(hop_of_transfer(actions[i]));
      const auto receiver = static_cast<std::size_t>(schedule.rank_of_stage[receive.stage]);
      const auto& program = schedule.actions[receiver];
      const std::size_t from = walk.stopped_at()[receiver];
      for (std::size_t distance = 0; distance < best_distance && from + distance < program.size();
           ++distance) {
        if (program[from + distance] != receive) continue;
        best = &actions[i];
        best_distance = distance;
        break;
      }
    }
  }
  return best;
}

/// The same programs with transfers in an order that serves all ranks.
std::vector<std::vector<Action>> in_order_of_meetings(const Schedule& programs) {
  WalkOptions options;
  options.transfers = TransferSemantics::grouped;
  DependencyWalk walk(programs, options);
  Recorder recorder(programs);
  while (!walk.run(recorder)) {
    const Action* send = nearest_waiting_send(programs, walk);
    if (send == nullptr) {
      throw InputError(fmt::format("schedule {}: the order of actions cannot run: {}", programs.name,
                                   describe(programs, find_blocked_cycle(programs, options))));
    }
    walk.meet_now(recorder, *send);
  }
  return recorder.take();
}

void put_sends_first(std::vector<Action>& actions) {
  for (auto at = actions.begin(); at != actions.end();) {
    const auto begin = std::find_if(at, actions.end(), [](const Action& a) { return is_transfer(a.type); });
    const auto end = std::find_if(begin, actions.end(), [](const Action& a) { return !is_transfer(a.type); });
    const auto sends = [](const Action& a) { return is_send(a.type); };
    if (!std::is_partitioned(begin, end, sends)) std::stable_partition(begin, end, sends);
    at = end;
  }
}

/// The channel of every message, by its tag: messages from one rank to another share one.
std::vector<std::size_t> channels_of(const Schedule& schedule, std::size_t& count) {
  std::map<Channel, std::size_t> numbers;
  std::vector<std::size_t> channels(static_cast<std::size_t>(schedule.stages) * kPayloads, 0);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (const Payload payload : kAllPayloads) {
      const Hop hop{stage, payload, 0};
      if (hop.to() < 0 || hop.to() >= schedule.stages) continue;
      channels[static_cast<std::size_t>(tag_of(hop))] =
          numbers.try_emplace(channel_of(schedule, hop), numbers.size()).first->second;
    }
  }
  count = numbers.size();
  return channels;
}

/// True if posted sends, each in the order of its channel, bring the schedule to its end as it stands.
bool runs_posted(const Schedule& schedule) {
  std::size_t count = 0;
  const std::vector<std::size_t> channels = channels_of(schedule, count);
  using Message = std::pair<int, std::uint32_t>;  // tag and micro-batch
  std::vector<std::vector<Message>> sent(count);
  std::vector<std::vector<Message>> received(count);
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) {
      const std::optional<Hop> hop = hop_of(action);
      if (!hop) continue;
      const int tag = tag_of(*hop);
      auto& halves = is_send(action.type) ? sent : received;
      halves[channels[static_cast<std::size_t>(tag)]].emplace_back(tag, hop->microbatch);
    }
  }
  if (sent != received) return false;
  WalkOptions options;
  options.one_send_buffer = true;
  return find_blocked_cycle(schedule, options).cells.empty();
}

}  // namespace

Schedule add_transfers(const Schedule& schedule, TransferOrder order) {
  check_ranges(schedule);
  const Schedule compute = drop_transfers(schedule);
  const Inserter inserter(compute);
  Schedule result = compute;
  std::int64_t count = 0;
  for (const auto& actions : compute.actions) count += inserter.count(actions);
  check_actions(compute.name, count);
  const auto insert = [&] {
    for (std::size_t rank = 0; rank < compute.actions.size(); ++rank)
      result.actions[rank] = with_transfers(inserter, compute.actions[rank]);
  };
  insert();
  if (order == TransferOrder::posted) {
    for (auto& actions : result.actions) put_sends_first(actions);
    if (runs_posted(result)) return result;
    insert();
  }
  result.actions = in_order_of_meetings(result);
  if (order != TransferOrder::blocking) {
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
