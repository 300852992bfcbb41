// Memory that every action of a schedule allocates and frees on its stage, from bench/training/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/memory/stage/final_units.hpp"
#include "analysis/memory/stage/memory_replay.hpp"
#include "analysis/step/stage_shape.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// The profile of `type` on this stage, as long as no gradient becomes final in it or ZeRO is not at stage 1.
/// `shape` is the teacher's stage for TF, SEND_TF and RECV_TF. `with_extra`: the action does the extra work
/// that only some actions of its type do. With a teacher, the later of F and TF of a micro-batch on the last
/// stage computes the loss. IF of the first micro-batch prepares its own scores; S prepares those of the next
/// micro-batch (all but the last S). Throws InputError for an action that the description does not cover.
ActionProfile action_profile(const StageShape& shape, ActionType type, bool with_extra = true);

/// The same with ZeRO 1, where every unit that becomes final starts its reduce-scatter. `under_way` belongs
/// to the rank: the reductions started by earlier actions, updated to those left for later ones. ARG finishes
/// it.
ActionProfile action_profile(const StageShape& shape, ActionType type, const FinalUnits& final_units,
                             ReductionUnderWay& under_way);

/// One action of an overlapped pair.
struct PairMember {
  const StageShape& shape;
  ActionType type;
  bool with_extra = true;
  FinalUnits final_units{};
};

/// Both actions of an overlapped pair that runs together (bench/training/overlap.md). Each runs until it
/// waits for expert rows or ends; then the other continues, unless it has ended.
ActionProfile pair_profile(const PairMember& first, const PairMember& second, ReductionUnderWay& under_way);

/// ARG with ZeRO 1 and without overlap_grad_reduce: one unit's piece after another, the largest of
/// `largest_piece` bytes.
ActionProfile reductions_at_the_end(std::int64_t largest_piece);

/// The profiles of a stage's actions, each replayed when it is first wanted.
class StageProfiles {
 public:
  struct Entry {
    explicit Entry(const ActionProfile& of)
        : profile(of), peak_total(of.peak.total().value), net_total(of.net.total().value) {}
    ActionProfile profile;
    std::int64_t peak_total = 0;
    std::int64_t net_total = 0;
  };
  /// Profile of an action of one stage, which must be the same in every call; a teacher's actions use the
  /// teacher's stage. Valid until the next call.
  const Entry& of(const StageShape& shape, ActionType type, bool with_extra) {
    if (!has(type, with_extra)) add(type, with_extra, action_profile(shape, type, with_extra));
    return entries_[at_[place(type, with_extra)] - std::size_t{1}];
  }
  /// True if an action's profile is known.
  bool has(ActionType type, bool with_extra) const { return at_[place(type, with_extra)] != 0; }
  /// Gives an unknown one.
  void add(ActionType type, bool with_extra, const ActionProfile& profile) {
    entries_.emplace_back(profile);
    at_[place(type, with_extra)] = static_cast<std::uint8_t>(entries_.size());
  }

 private:
  static std::size_t place(ActionType type, bool with_extra) {
    return 2 * static_cast<std::size_t>(type) + (with_extra ? 1 : 0);
  }

  std::array<std::uint8_t, std::size_t{2} * kActionTypes> at_{};  // in entries_, from 1 on
  std::vector<Entry> entries_;
};

}  // namespace plumbline
