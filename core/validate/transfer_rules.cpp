#include "core/validate/transfer_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

namespace plumbline {
namespace {

class TransferRules {
 public:
  TransferRules(const Schedule& schedule, const ActionIndex& index) : schedule_(schedule), index_(index) {}

  Fault check() {
    (void)transfers();
    return fault_;
  }

 private:
  int rank_of(int stage) const { return schedule_.rank_of_stage[static_cast<std::size_t>(stage)]; }
  std::uint32_t microbatches() const { return static_cast<std::uint32_t>(schedule_.microbatches); }
  std::int32_t end_of(int rank) const {
    return static_cast<std::int32_t>(schedule_.actions[static_cast<std::size_t>(rank)].size());
  }
  std::int32_t find(ActionType type, int stage, std::uint32_t m) const {
    return index_.position(type, stage, m);
  }
  static std::string cell(int stage, ActionType type, std::uint32_t m) {
    return to_string({type, false, static_cast<std::uint16_t>(stage), m});
  }
  bool on_route(int stage, std::uint32_t m) const {
    return stage / schedule_.stages_per_route() == schedule_.route_of(m);
  }
  bool fail(int rank, std::int32_t position, std::string rule) {
    fault_ = {rank, position, std::move(rule)};
    return true;
  }

  /// One hop of one micro-batch between two stages; the producers and consumers are what computes at both
  /// ends.
  bool hop(int from, int to, std::uint32_t m, ActionType send, ActionType receive,
           std::initializer_list<ActionType> producers, std::initializer_list<ActionType> consumers) {
    const std::int32_t s = find(send, from, m);
    const std::int32_t r = find(receive, to, m);
    const int sender = rank_of(from);
    const int receiver = rank_of(to);
    if (sender == receiver) {
      if (s == ActionIndex::kAbsent && r == ActionIndex::kAbsent) return false;
      return fail(sender, std::max(s, r),
                  fmt::format("{}: stages {} and {} are on the same rank, nothing is to be sent",
                              s > r ? cell(from, send, m) : cell(to, receive, m), from, to));
    }
    std::int32_t produced = ActionIndex::kAbsent;
    for (const ActionType type : producers) produced = std::max(produced, find(type, from, m));
    std::int32_t consumed = end_of(receiver);
    for (const ActionType type : consumers) {
      const std::int32_t at = find(type, to, m);
      if (at != ActionIndex::kAbsent) consumed = std::min(consumed, at);
    }
    if (s == ActionIndex::kAbsent) return fail(sender, produced, cell(from, send, m) + " is missing");
    if (r == ActionIndex::kAbsent) return fail(receiver, consumed, cell(to, receive, m) + " is missing");
    if (s < produced)
      return fail(sender, s, fmt::format("{} comes before what it sends", cell(from, send, m)));
    if (r > consumed) return fail(receiver, r, fmt::format("{} comes after its use", cell(to, receive, m)));
    return false;
  }

  bool transfers() {
    using enum ActionType;
    const bool any = index_.has(send_forward) || index_.has(receive_forward) || index_.has(send_backward) ||
                     index_.has(receive_backward) || index_.has(send_teacher) || index_.has(receive_teacher);
    if (!any) return false;
    const bool teacher = index_.has(teacher_forward) && !schedule_.joint_teacher;
    for (int stage = 0; stage + 1 < schedule_.stages; ++stage) {
      if (schedule_.last_of_route(stage)) continue;
      for (std::uint32_t m = 0; m < microbatches(); ++m) {
        if (!on_route(stage, m)) continue;
        const bool broken =
            schedule_.joint_teacher
                ? hop(stage, stage + 1, m, send_forward, receive_forward, {forward, teacher_forward},
                      {forward, teacher_forward})
                : hop(stage, stage + 1, m, send_forward, receive_forward, {forward}, {forward});
        if (broken || hop(stage + 1, stage, m, send_backward, receive_backward, {backward, backward_input},
                          {backward, backward_input})) {
          return true;
        }
        if (teacher &&
            hop(stage, stage + 1, m, send_teacher, receive_teacher, {teacher_forward}, {teacher_forward})) {
          return true;
        }
      }
    }
    return false;
  }

  const Schedule& schedule_;
  const ActionIndex& index_;
  Fault fault_;
};

}  // namespace

Fault find_transfer_fault(const Schedule& schedule, const ActionIndex& index) {
  return TransferRules(schedule, index).check();
}

}  // namespace plumbline
