#include "analysis/memory/memory_model.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <span>
#include <stdexcept>

#include "core/base/error.hpp"
#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

void add(MemoryBreakdown& to, const MemoryBreakdown& what) {
  for (std::size_t c = 0; c < to.categories.size(); ++c) to.categories[c] += what.categories[c];
}

/// Profiles of the stages' actions, each replayed when it is first wanted, for all stages of a kind.
class Profiles {
 public:
  /// `teachers`: by stage; empty without one. References are kept.
  Profiles(const StageKinds& kinds, const std::vector<StageShape>& teachers)
      : kinds_(kinds),
        teachers_(teachers),
        known_(teachers.empty() ? kinds.first_stage.size() : kinds.shapes.size()) {}

  struct Entry {
    ActionProfile profile;
    std::int64_t peak_total = 0;
    std::int64_t net_total = 0;
  };
  /// `with_extra` as of action_profile. Until the next call.
  const Entry& of(const Action& action, bool with_extra) {
    Known& stage = known_[teachers_.empty() ? kinds_.of_stage[action.stage] : action.stage];
    const auto slot = 2 * static_cast<std::size_t>(action.type) + (with_extra ? 1 : 0);
    if (stage.at[slot] == 0) {
      stage.entries.push_back(entry(action_profile(shape_of(action), action.type, with_extra)));
      stage.at[slot] = static_cast<std::uint8_t>(stage.entries.size());
    }
    return stage.entries[stage.at[slot] - std::size_t{1}];
  }
  static Entry entry(const ActionProfile& profile) {
    return {profile, profile.peak.total().value, profile.net.total().value};
  }

 private:
  struct Known {
    std::array<std::uint8_t, std::size_t{2} * kActionTypes> at{};  // in `entries`, from 1 on
    std::vector<Entry> entries;
  };
  const StageShape& shape_of(const Action& action) const {
    if (payload_of(action.type) != Payload::teacher) return kinds_.shapes[action.stage];
    if (teachers_.empty()) {
      throw InputError(
          fmt::format("schedule: found action {} without a teacher, expected teacher: in the "
                      "configuration",
                      to_string(action)));
    }
    return teachers_[action.stage];
  }

  const StageKinds& kinds_;
  const std::vector<StageShape>& teachers_;
  std::vector<Known> known_;
};

/// Walks over a rank's actions, one after the other.
class Walk {
 public:
  Walk(const std::vector<StageShape>& shapes, const RepeatedSchedule& step, const MemoryPlan::Rank& plan,
       Profiles& profiles, MemoryDetail detail, RankMemory& memory)
      : shapes_(shapes),
        step_(step),
        plan_(plan),
        profiles_(profiles),
        detail_(detail),
        memory_(memory),
        now_(memory.held),
        now_total_(now_.total().value),
        peak_total_(now_total_) {
    // With ZeRO 1 a unit's reduction starts where its gradient becomes final, and the last one ends in ARG: the
    // few actions whose memory depends on their place.
    if (!shapes.empty() && shapes.front().zero == 1) final_ = final_actions(shapes, plan.last);
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
      // Where it leaves something behind the last time is the fullest, else the first.
      const bool grows = total_left_by(items) > 0;
      if (grows) leave_out(items, run.times - 1);
      walk(items, run, grows);
      if (!grows) leave_out(items, run.times - 1);
    }
    if (peak_action_) memory_.at = to_string(*peak_action_);
  }

 private:
  std::int64_t total_left_by(std::span<const MemoryPlan::Item> items) {
    std::int64_t total = 0;
    for (const MemoryPlan::Item& item : items) total += profiles_.of(item.action, item.with_extra).net_total;
    return total;
  }

  /// Nothing in them is the fullest moment.
  void leave_out(std::span<const MemoryPlan::Item> items, std::int64_t times) {
    for (const MemoryPlan::Item& item : items) {
      const Profiles::Entry& entry = profiles_.of(item.action, item.with_extra);
      for (std::size_t c = 0; c < now_.categories.size(); ++c)
        now_.categories[c] += times * entry.profile.net.categories[c];
      now_total_ += times * entry.net_total;
    }
  }

  void walk(std::span<const MemoryPlan::Item> items, const MemoryPlan::Run& run, bool last) {
    for (const MemoryPlan::Item& item : items) {
      const bool is_final = item.has_last_gradient && next_final_ < final_.size() &&
                            final_[next_final_].position == item.position;
      if (is_final || (under_way_.piece > 0 && item.action.type == ActionType::reduce_gradients)) {
        const FinalUnits units = is_final ? final_[next_final_++].units : FinalUnits();
        const ActionProfile profile =
            action_profile(shapes_[item.action.stage], item.action.type, units, under_way_);
        pass(item, Profiles::entry(profile), run, last);
      } else {
        pass(item, profiles_.of(item.action, item.with_extra), run, last);
      }
    }
  }

  void pass(const MemoryPlan::Item& item, const Profiles::Entry& entry, const MemoryPlan::Run& run,
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
  const RepeatedSchedule& step_;
  const MemoryPlan::Rank& plan_;
  Profiles& profiles_;
  MemoryDetail detail_;
  RankMemory& memory_;
  std::vector<FinalAction> final_;
  std::size_t next_final_ = 0;
  ReductionUnderWay under_way_;
  MemoryBreakdown now_;
  std::int64_t now_total_ = 0;
  std::int64_t peak_total_ = 0;
  std::optional<Action> peak_action_;
};

MemoryPrediction walk_all(const RunConfig& config, const RepeatedSchedule& step, const MemoryPlan& plan,
                          const StageKinds& kinds, const std::vector<StageShape>& teachers,
                          MemoryDetail detail) {
  const Schedule& schedule = step.once;
  Profiles profiles(kinds, teachers);
  const Layout layout = config.layout();
  MemoryPrediction prediction;
  prediction.ranks_alike = layout.tensor * layout.data;
  prediction.ranks.resize(static_cast<std::size_t>(schedule.ranks));
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    RankMemory& memory = prediction.ranks[at];
    memory.rank = layout.rank_of({0, 0, rank});
    memory.pipeline_rank = rank;
    const int alike = teachers.empty() ? kinds.first_rank[kinds.of_rank[at]] : rank;
    if (alike < rank) {
      memory.held = prediction.ranks[static_cast<std::size_t>(alike)].held;
    } else {
      std::vector<StageShape> taught;
      for (const std::size_t stage : kinds.stages_held[at]) {
        if (!teachers.empty()) taught.push_back(teachers[stage]);
      }
      memory.held = held_bytes(kinds.on_rank(rank), config, taught);
    }
    Walk(kinds.shapes, step, plan.ranks[at], profiles, detail, memory).run();
    if (memory.peak.total() <= prediction.peak) continue;
    prediction.peak = memory.peak.total();
    prediction.peak_rank = memory.rank;
  }
  return prediction;
}

}  // namespace

MemoryPrediction predict_memory(const RunConfig& config, const RepeatedSchedule& step, MemoryDetail detail) {
  return predict_memory(config, step, detail, framework_of(config));
}

MemoryPrediction predict_memory(const RunConfig& config, const RepeatedSchedule& step, MemoryDetail detail,
                                const cluster::Software* framework) {
  const bool timeline = detail == MemoryDetail::timeline;
  if (timeline && step.repeats())
    throw std::logic_error("a timeline of memory needs every action of the step");
  const std::vector<StageShape> teachers = teacher_shapes(config, step.once);
  const StageKinds kinds(stage_shapes(config, step.once, framework), step.once);
  return walk_all(config, step, memory_plan(step, !teachers.empty(), timeline), kinds, teachers, detail);
}

MemoryPrediction predict_memory(const RunConfig& config, const RepeatedSchedule& step, const MemoryPlan& plan,
                                const StageKinds& kinds) {
  return walk_all(config, step, plan, kinds, {}, MemoryDetail::peaks);
}

}  // namespace plumbline
