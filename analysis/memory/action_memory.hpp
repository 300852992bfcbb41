// What every action of a schedule allocates and frees on its stage, from bench/training/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/memory/stage/final_units.hpp"
#include "analysis/memory/stage/memory_replay.hpp"
#include "analysis/work/shapes.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// The profile of `type` on this stage, as long as no gradient becomes final in it or ZeRO is not at stage 1.
/// `shape` is the teacher's stage for TF, SEND_TF and RECV_TF. `with_extra`: whether it does what only some
/// actions of its type do: with a teacher, F or TF of the last stage computes the loss (the later one of its
/// micro-batch); IF gets ready for the scores of the first micro-batch (its own), S for those of the next
/// (all but the last). Throws InputError for an action that the description does not cover.
ActionProfile action_profile(const StageShape& shape, ActionType type, bool with_extra = true);

/// The same with ZeRO 1, where every unit that becomes final starts its reduce-scatter. `under_way` is that
/// of the rank: what earlier actions started, and afterwards what is left for later ones. ARG finishes it.
ActionProfile action_profile(const StageShape& shape, ActionType type, const FinalUnits& final_units,
                             ReductionUnderWay& under_way);

/// One action of an overlapped pair.
struct PairMember {
  const StageShape& shape;
  ActionType type;
  bool with_extra = true;
  FinalUnits final_units{};
};

/// Both actions of an overlapped pair that runs together (bench/training/overlap.md): each goes on until it waits for rows of
/// experts or ends; then it is the other one's turn, unless that has ended.
ActionProfile pair_profile(const PairMember& first, const PairMember& second, ReductionUnderWay& under_way);

/// ARG with ZeRO 1 and without overlap_grad_reduce: one unit's piece after another, of which the largest has
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
  /// Of a stage that must always be the same, but for a teacher's actions, whose stage is the teacher's. Until the
  /// next call.
  const Entry& of(const StageShape& shape, ActionType type, bool with_extra) {
    std::uint8_t& at = at_[2 * static_cast<std::size_t>(type) + (with_extra ? 1 : 0)];
    if (at == 0) {
      entries_.emplace_back(action_profile(shape, type, with_extra));
      at = static_cast<std::uint8_t>(entries_.size());
    }
    return entries_[at - std::size_t{1}];
  }

 private:
  std::array<std::uint8_t, std::size_t{2} * kActionTypes> at_{};  // in entries_, from 1 on
  std::vector<Entry> entries_;
};

}  // namespace plumbline
