#include "analysis/memory/rank_walk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

#include "analysis/memory/stage/final_units.hpp"
#include "analysis/work/muon.hpp"
#include "analysis/work/parameter_units.hpp"
#include "core/base/error.hpp"
#include "core/schedule/hop.hpp"

namespace plumbline {

const StageProfiles::Entry& WalkedProfiles::of(const Action& action, bool with_extra) {
  const bool teacher = payload_of(action.type) == Payload::teacher;
  if (teacher && teachers_.empty()) {
    throw InputError(
        fmt::format("schedule: found action {} without a teacher, expected teacher: in the "
                    "configuration",
                    to_string(action)));
  }
  const StageShape& shape = teacher ? teachers_[action.stage] : kinds_.shapes[action.stage];
  const std::size_t known = teachers_.empty() ? kinds_.of_stage[action.stage] : action.stage;
  return profiles_[known]->of(shape, action.type, with_extra);
}

namespace {

void add(MemoryBreakdown& to, const MemoryBreakdown& what) {
  for (std::size_t c = 0; c < to.categories.size(); ++c) to.categories[c] += what.categories[c];
}

/// Walks over a rank's actions, one after the other.
class RankWalk {
 public:
  RankWalk(const StepModel& model, const RepeatedSchedule& step, const MemoryPlan::Rank& plan,
           WalkedProfiles& profiles, MemoryDetail detail, const WalkedRows& rows, RankMemory& memory)
      : shapes_(model.shapes()),
        teachers_(model.teachers),
        step_(step),
        plan_(plan),
        profiles_(profiles),
        detail_(detail),
        rows_(rows),
        memory_(memory),
        now_(memory.held),
        now_total_(now_.total().value),
        peak_total_(now_total_) {
    // With ZeRO 1 a unit's reduction starts where its gradient becomes final, and the last one ends in ARG:
    // only these actions' memory depends on their place.
    if (!shapes_.empty() && shapes_.front().sharding.zero == 1) {
      if (shapes_.front().overlap.grad_reduce || !shapes_.front().traits.copies_reduced_pieces) {
        final_ = final_actions(shapes_, plan.last);
      } else {
        largest_piece_ = largest_piece();
      }
    }
    if (!shapes_.empty() && shapes_.front().numerics.optimizer.kind == Optimizer::muon &&
        shapes_.front().traits.own_lists)
      muon_workspace_ = largest_update();
    memory.peak = memory.held;
    if (detail == MemoryDetail::timeline) memory.timeline.reserve(plan.items.size());
  }

  void run() {
    for (const MemoryPlan::Run& run : plan_.runs) {
      const std::span<const MemoryPlan::Item> items(plan_.items.data() + run.first, run.items);
      if (run.times == 1) {
        walk(items, run, false);
        continue;
      }
      // If the run leaves memory behind, its last repetition is the fullest, else its first.
      const bool grows = total_left_by(items) > 0;
      if (grows) leave_out(items, run.times - 1);
      walk(items, run, grows);
      if (!grows) leave_out(items, run.times - 1);
    }
    if (peak_action_) memory_.at = to_string(*peak_action_);
  }

 private:
  /// Largest piece of the gradients of the rank's units, in bytes.
  std::int64_t largest_piece() const {
    std::int64_t largest = 0;
    for (const StageShape& shape : shapes_) {
      if (step_.once.rank_of_stage[static_cast<std::size_t>(shape.place.stage)] != memory_.pipeline_rank)
        continue;
      for (const ParameterUnit& unit : units_of(shape))
        if (unit.pieces > 1 || shape.has_instances())
          largest = std::max(largest, trainable_unit(shape, unit) / unit.pieces * shape.numerics.g());
    }
    return largest;
  }

  /// Bytes that Muon's update of the rank's fullest unit allocates.
  std::int64_t largest_update() const {
    std::int64_t largest = 0;
    for (const StageShape& shape : shapes_) {
      if (step_.once.rank_of_stage[static_cast<std::size_t>(shape.place.stage)] == memory_.pipeline_rank)
        largest = std::max(largest, muon_workspace(shape));
    }
    return largest;
  }

  std::int64_t total_left_by(std::span<const MemoryPlan::Item> items) {
    std::int64_t total = 0;
    for (const MemoryPlan::Item& item : items) total += profiles_.of(item.action, item.with_extra).net_total;
    return total;
  }

  /// Nothing in them is the fullest moment.
  void leave_out(std::span<const MemoryPlan::Item> items, std::int64_t times) {
    for (const MemoryPlan::Item& item : items) {
      const StageProfiles::Entry& entry = profiles_.of(item.action, item.with_extra);
      for (std::size_t c = 0; c < now_.categories.size(); ++c)
        now_.categories[c] += times * entry.profile.net.categories[c];
      now_total_ += times * entry.net_total;
    }
  }

  void walk(std::span<const MemoryPlan::Item> items, const MemoryPlan::Run& run, bool last) {
    for (const MemoryPlan::Item& item : items) {
      if (item.action.overlaps_next && shapes_[item.action.stage].overlap.pairs) {
        pass_pair(item, run, last);
        continue;
      }
      if (&item > plan_.items.data() && (&item)[-1].action.overlaps_next &&
          shapes_[item.action.stage].overlap.pairs) {
        pass(item, StageProfiles::Entry(ActionProfile()), run, last);  // all of it is in the pair's first
        continue;
      }
      if (largest_piece_ > 0 && item.action.type == ActionType::reduce_gradients) {
        pass(item, StageProfiles::Entry(reductions_at_the_end(largest_piece_)), run, last);
        continue;
      }
      if (muon_workspace_ > 0 && item.action.type == ActionType::optimizer) {
        Replay replay;
        replay.take(Category::workspace, muon_workspace_);
        replay.give(Category::workspace, muon_workspace_);
        pass(item, StageProfiles::Entry(replay.profile()), run, last);
        continue;
      }
      const bool is_final = item.has_last_gradient && next_final_ < final_.size() &&
                            final_[next_final_].position == item.position;
      if (is_final || (under_way_.piece > 0 && item.action.type == ActionType::reduce_gradients)) {
        const FinalUnits units = is_final ? final_[next_final_++].units : FinalUnits();
        const ActionProfile profile =
            action_profile(routed(item.action), item.action.type, units, under_way_);
        pass(item, StageProfiles::Entry(profile), run, last);
      } else if (rows_of(item.action) != nullptr) {
        pass(item,
             StageProfiles::Entry(action_profile(routed(item.action), item.action.type, item.with_extra)),
             run, last);
      } else {
        pass(item, profiles_.of(item.action, item.with_extra), run, last);
      }
    }
  }

  /// The item and the one after it.
  void pass_pair(const MemoryPlan::Item& item, const MemoryPlan::Run& run, bool last) {
    const auto units_of = [&](const MemoryPlan::Item& member) {
      const bool is_final = member.has_last_gradient && next_final_ < final_.size() &&
                            final_[next_final_].position == member.position;
      return is_final ? final_[next_final_++].units : FinalUnits();
    };
    const MemoryPlan::Item& other = (&item)[1];
    const StageShape shape = routed(item.action);
    const StageShape other_shape = routed(other.action);
    const PairMember first{shape, item.action.type, item.with_extra, units_of(item)};
    const PairMember second{other_shape, other.action.type, other.with_extra, units_of(other)};
    pass(item, StageProfiles::Entry(pair_profile(first, second, under_way_)), run, last);
  }

  /// Null if its routing is unknown.
  const RoutedRows* rows_of(const Action& action) const {
    if (action.type == ActionType::teacher_forward) return rows_.teacher;
    return is_compute(action.type) ? rows_.student : nullptr;
  }

  StageShape routed(const Action& action) const {
    const bool teacher = action.type == ActionType::teacher_forward;
    const StageShape& shape = teacher ? teachers_[action.stage] : shapes_[action.stage];
    const RoutedRows* rows = rows_of(action);
    return rows == nullptr ? shape : rows->in_microbatch(shape, action.microbatch);
  }

  void pass(const MemoryPlan::Item& item, const StageProfiles::Entry& entry, const MemoryPlan::Run& run,
            bool last) {
    const bool timeline = detail_ == MemoryDetail::timeline;
    const bool fuller = now_total_ + entry.peak_total > peak_total_;
    MemoryBreakdown highest;
    if (fuller || timeline) {
      highest = now_;
      add(highest, entry.profile.peak);
    }
    if (fuller) {
      peak_total_ = now_total_ + entry.peak_total;
      memory_.peak = highest;
      peak_action_ = item.action;
      if (last) peak_action_->microbatch = item.last_microbatch;
      peak_action_ = step_.in_step(*peak_action_, run.copy);
    }
    add(now_, entry.profile.net);
    now_total_ += entry.net_total;
    if (timeline) memory_.timeline.push_back({highest, now_});
  }

  const std::vector<StageShape>& shapes_;
  const std::vector<StageShape>& teachers_;
  const RepeatedSchedule& step_;
  const MemoryPlan::Rank& plan_;
  WalkedProfiles& profiles_;
  MemoryDetail detail_;
  const WalkedRows rows_;
  RankMemory& memory_;
  std::vector<FinalAction> final_;
  std::size_t next_final_ = 0;
  std::int64_t largest_piece_ = 0;   // reduced by ARG
  std::int64_t muon_workspace_ = 0;  // of OPT
  ReductionUnderWay under_way_;
  MemoryBreakdown now_;
  std::int64_t now_total_ = 0;
  std::int64_t peak_total_ = 0;
  std::optional<Action> peak_action_;
};

}  // namespace

void walk_rank(const StepModel& model, const RepeatedSchedule& step, const MemoryPlan::Rank& plan,
               WalkedProfiles& profiles, MemoryDetail detail, const WalkedRows& rows, RankMemory& memory) {
  RankWalk(model, step, plan, profiles, detail, rows, memory).run();
}

}  // namespace plumbline
