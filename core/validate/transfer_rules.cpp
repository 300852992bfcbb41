#include "core/validate/transfer_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

class TransferRules {
 public:
  TransferRules(const Schedule& schedule, const ActionIndex& index) : schedule_(schedule), index_(index) {}

  Fault check() {
    const bool any = std::any_of(kAllPayloads.begin(), kAllPayloads.end(), [&](Payload payload) {
      return index_.has(sending(payload)) || index_.has(receiving(payload));
    });
    if (any) (void)transfers();
    return fault_;
  }

 private:
  std::uint32_t microbatches() const { return static_cast<std::uint32_t>(schedule_.microbatches); }
  std::int32_t end_of(int rank) const {
    return static_cast<std::int32_t>(schedule_.actions[static_cast<std::size_t>(rank)].size());
  }
  std::int32_t find(const Action& action) const {
    return index_.position(action.type, action.stage, action.microbatch);
  }
  bool on_route(int stage, std::uint32_t m) const {
    return stage / schedule_.stages_per_route() == schedule_.route_of(m);
  }
  bool fail(int rank, std::int32_t position, std::string rule) {
    fault_ = {rank, position, std::move(rule)};
    return true;
  }

  /// The two halves of one message, which `computes` makes on the sending stage and uses on the receiving
  /// one.
  bool broken(const Hop& hop, std::span<const ActionType> computes) {
    const Action send = send_of(hop);
    const Action receive = receive_of(hop);
    const std::int32_t s = find(send);
    const std::int32_t r = find(receive);
    const auto [sender, receiver] = channel_of(schedule_, hop);
    if (sender == receiver) {
      if (s == ActionIndex::kAbsent && r == ActionIndex::kAbsent) return false;
      return fail(sender, std::max(s, r),
                  fmt::format("{}: stages {} and {} are on the same rank, nothing is to be sent",
                              to_string(s > r ? send : receive), hop.from, hop.to()));
    }
    std::int32_t produced = ActionIndex::kAbsent;
    std::int32_t consumed = end_of(receiver);
    for (const ActionType type : computes) {
      produced = std::max(produced, index_.position(type, hop.from, hop.microbatch));
      const std::int32_t at = index_.position(type, hop.to(), hop.microbatch);
      if (at != ActionIndex::kAbsent) consumed = std::min(consumed, at);
    }
    if (s == ActionIndex::kAbsent) return fail(sender, produced, to_string(send) + " is missing");
    if (r == ActionIndex::kAbsent) return fail(receiver, consumed, to_string(receive) + " is missing");
    if (s < produced) return fail(sender, s, fmt::format("{} comes before what it sends", to_string(send)));
    if (r > consumed) return fail(receiver, r, fmt::format("{} comes after its use", to_string(receive)));
    return false;
  }

  /// Every message between two stages of a route.
  bool transfers() {
    static constexpr std::array kJoint = {ActionType::forward, ActionType::teacher_forward};
    const bool teacher = index_.has(ActionType::teacher_forward);
    for (int stage = 0; stage + 1 < schedule_.stages; ++stage) {
      if (schedule_.last_of_route(stage)) continue;
      for (std::uint32_t m = 0; m < microbatches(); ++m) {
        if (!on_route(stage, m)) continue;
        for (const Payload payload : kAllPayloads) {
          if (payload == Payload::teacher && (!teacher || schedule_.joint_teacher)) continue;
          const bool joint = payload == Payload::activation && schedule_.joint_teacher;
          const Hop hop{step_of(payload) > 0 ? stage : stage + 1, payload, m};
          if (broken(hop, joint ? std::span<const ActionType>(kJoint) : computing(payload))) return true;
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
