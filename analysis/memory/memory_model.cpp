#include "analysis/memory/memory_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "analysis/memory/memory_walk.hpp"
#include "analysis/work/parameter_units.hpp"
#include "core/base/error.hpp"
#include "core/schedule/hop.hpp"

namespace plumbline {
namespace {

void add(MemoryBreakdown& to, const MemoryBreakdown& what) {
  for (std::size_t c = 0; c < to.categories.size(); ++c) to.categories[c] += what.categories[c];
}

/// Profiles of the stages' actions, each replayed when it is first wanted.
class Profiles {
 public:
  Profiles(const std::vector<StageShape>& shapes, const std::vector<StageShape>& teachers)
      : shapes_(shapes), teachers_(teachers), known_(shapes.size()) {}

  struct Entry {
    ActionProfile profile;
    std::int64_t peak_total = 0;
    std::int64_t net_total = 0;
  };
  /// `with_extra` as of action_profile.
  const Entry& of(const Action& action, bool with_extra) {
    Known& stage = known_[action.stage];
    const auto slot = 2 * static_cast<std::size_t>(action.type) + (with_extra ? 1 : 0);
    if (!stage.has[slot]) {
      stage.entries[slot] = entry(action_profile(shape_of(action), action.type, with_extra));
      stage.has[slot] = true;
    }
    return stage.entries[slot];
  }
  static Entry entry(const ActionProfile& profile) {
    return {profile, profile.peak.total().value, profile.net.total().value};
  }

 private:
  static constexpr std::size_t kEntries = std::size_t{2} * kActionTypes;
  struct Known {
    std::array<Entry, kEntries> entries;
    std::array<bool, kEntries> has{};
  };
  const StageShape& shape_of(const Action& action) const {
    if (payload_of(action.type) != Payload::teacher) return shapes_[action.stage];
    if (teachers_.empty()) {
      throw InputError(
          fmt::format("schedule: found action {} without a teacher, expected teacher: in the "
                      "configuration",
                      to_string(action)));
    }
    return teachers_[action.stage];
  }

  const std::vector<StageShape>& shapes_;
  const std::vector<StageShape>& teachers_;
  std::vector<Known> known_;
};

/// Which actions do more than others of their type, as of action_profile.
class Extras {
 public:
  Extras(const std::vector<StageShape>& shapes, int microbatches)
      : shapes_(shapes), last_microbatch_(static_cast<std::uint32_t>(microbatches) - 1) {}

  /// To be asked once for every action of a rank, in order.
  bool in(const Action& action) {
    if (action.type == ActionType::input_forward) return action.microbatch == 0;
    if (action.type == ActionType::vocab_forward) return action.microbatch != last_microbatch_;
    return loss_in(action);
  }

 private:
  /// Of the two forwards of a micro-batch on the last stage the later one. Without a teacher F always
  /// computes the loss.
  bool loss_in(const Action& action) {
    const bool student = action.type == ActionType::forward;
    if (!student && action.type != ActionType::teacher_forward) return true;
    const StageShape& shape = shapes_[action.stage];
    if (!shape.distillation.on || !shape.last) return true;
    if (action.microbatch >= seen_.size()) seen_.resize(action.microbatch + 1);
    const bool later = seen_[action.microbatch];
    seen_[action.microbatch] = true;
    return later;
  }

  const std::vector<StageShape>& shapes_;
  std::uint32_t last_microbatch_;
  std::vector<bool> seen_;  // by micro-batch: one of the two is done
};

/// Walks over a rank's actions, one after the other.
class Walk {
 public:
  Walk(const std::vector<StageShape>& shapes, const RepeatedSchedule& step, Profiles& profiles,
       MemoryDetail detail, RankMemory& memory)
      : shapes_(shapes),
        step_(step),
        actions_(step.once.actions[static_cast<std::size_t>(memory.pipeline_rank)]),
        profiles_(profiles),
        detail_(detail),
        memory_(memory),
        extras_(shapes, step.once.microbatches),
        now_(memory.held),
        now_total_(now_.total().value),
        peak_total_(now_total_) {
    // With ZeRO 1 a unit's reduction starts where its gradient becomes final, and the last one ends in ARG: the
    // few actions whose memory depends on their place.
    if (!shapes.empty() && shapes.front().zero == 1) {
      if (shapes.front().overlap_grad_reduce || shapes.front().framework != nullptr) {
        final_ = final_actions(shapes, actions_);
      } else {
        largest_piece_ = largest_piece();
      }
    }
    while (first_computation_ < actions_.size() && is_transfer(actions_[first_computation_].type))
      ++first_computation_;
    memory.peak = memory.held;
    if (detail == MemoryDetail::timeline) memory.timeline.reserve(actions_.size());
  }

  void run() {
    if (!step_.repeats()) {
      walk(0, actions_.size(), 0);
    } else {
      const RepeatedSchedule::Period& period = step_.periods[static_cast<std::size_t>(memory_.pipeline_rank)];
      walk(0, period.first, 0);
      // The copies that are not written down are alike: one does all that is done for one micro-batch, though not
      // for the same, and leaves nothing behind. The first of them may be the fullest moment.
      for (std::size_t i = period.first; i < period.end(); ++i)
        pass(i, profiles_.of(actions_[i], true), 0, true);
      walk(period.first, actions_.size(), step_.copies - 1);
    }
    if (peak_action_) memory_.at = to_string(*peak_action_);
  }

 private:
  /// Of the gradients of the rank's units, in bytes.
  std::int64_t largest_piece() const {
    std::int64_t largest = 0;
    for (const StageShape& shape : shapes_) {
      if (step_.once.rank_of_stage[static_cast<std::size_t>(shape.stage)] != memory_.pipeline_rank) continue;
      for (const ParameterUnit& unit : units_of(shape))
        largest = std::max(largest, unit.padded / shape.data * shape.g());
    }
    return largest;
  }

  void walk(std::size_t begin, std::size_t end, std::int64_t copy) {
    for (std::size_t i = begin; i < end; ++i) {
      const Action& action = actions_[i];
      const bool with_extra = extras_.in(action);
      if (largest_piece_ > 0 && action.type == ActionType::reduce_gradients) {
        pass(i, Profiles::entry(reductions_at_the_end(largest_piece_)), copy);
        continue;
      }
      const bool is_final = next_final_ < final_.size() && final_[next_final_].position == i;
      if (is_final || (under_way_.piece > 0 && action.type == ActionType::reduce_gradients)) {
        const FinalUnits units = is_final ? final_[next_final_++].units : FinalUnits();
        pass(i, Profiles::entry(action_profile(shapes_[action.stage], action.type, units, under_way_)), copy);
      } else {
        pass(i, profiles_.of(action, with_extra), copy);
      }
    }
  }

  /// overlap_p2p_comm: a receive's buffer is taken by the action in front of it that is no transfer, where there is
  /// one, before all that this does.
  Profiles::Entry with_receives_ahead(std::size_t position, const Profiles::Entry& entry, bool wraps) {
    if (is_transfer(actions_[position].type)) {
      const bool posted = !is_send(actions_[position].type) && position > first_computation_;
      return posted ? Profiles::entry({}) : entry;
    }
    MemoryBreakdown taken;
    const RepeatedSchedule::Period* period =
        wraps ? &step_.periods[static_cast<std::size_t>(memory_.pipeline_rank)] : nullptr;
    for (std::size_t i = position + 1; i < actions_.size(); ++i) {
      if (period != nullptr && i == period->end()) i = period->first;
      if (!is_transfer(actions_[i].type)) break;
      if (!is_send(actions_[i].type)) add(taken, profiles_.of(actions_[i], true).profile.net);
    }
    ActionProfile profile{taken, taken};
    add(profile.net, entry.profile.net);
    add(profile.peak, entry.profile.peak);
    return Profiles::entry(profile);
  }

  /// `wraps`: after the last action of the period comes its first one.
  void pass(std::size_t position, const Profiles::Entry& entry, std::int64_t copy, bool wraps = false) {
    const Action& action = actions_[position];
    if (shapes_.front().receives_ahead) {
      pass(action, with_receives_ahead(position, entry, wraps), copy);
    } else {
      pass(action, entry, copy);
    }
  }

  void pass(const Action& action, const Profiles::Entry& entry, std::int64_t copy) {
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
      peak_action_ = step_.in_step(action, copy);
    }
    add(now_, entry.profile.net);
    now_total_ += entry.net_total;
    if (timeline) memory_.timeline.push_back({highest, now_});
  }

  const std::vector<StageShape>& shapes_;
  const RepeatedSchedule& step_;
  const std::vector<Action>& actions_;
  Profiles& profiles_;
  MemoryDetail detail_;
  RankMemory& memory_;
  Extras extras_;
  std::vector<FinalAction> final_;
  std::size_t next_final_ = 0;
  std::int64_t largest_piece_ = 0;  // reduced by ARG
  std::size_t first_computation_ = 0;
  ReductionUnderWay under_way_;
  MemoryBreakdown now_;
  std::int64_t now_total_ = 0;
  std::int64_t peak_total_ = 0;
  std::optional<Action> peak_action_;
};

}  // namespace

MemoryPrediction predict_memory(const RunConfig& config, const RepeatedSchedule& step, MemoryDetail detail) {
  return predict_memory(config, step, detail, framework_of(config));
}

MemoryPrediction predict_memory(const RunConfig& config, const RepeatedSchedule& step, MemoryDetail detail,
                                const cluster::Software* framework) {
  const Schedule& schedule = step.once;
  if (detail == MemoryDetail::timeline && step.repeats())
    throw std::logic_error("a timeline of memory needs every action of the step");
  const std::vector<StageShape> shapes = stage_shapes(config, schedule, framework);
  const std::vector<StageShape> teachers = teacher_shapes(config, schedule);
  const auto by_rank = [&](const std::vector<StageShape>& all) {
    std::vector<std::vector<StageShape>> stages(static_cast<std::size_t>(schedule.ranks));
    for (const StageShape& shape : all) {
      const int rank = schedule.rank_of_stage[static_cast<std::size_t>(shape.stage)];
      stages[static_cast<std::size_t>(rank)].push_back(shape);
    }
    return stages;
  };
  const std::vector<std::vector<StageShape>> stages_of_rank = by_rank(shapes);
  const std::vector<std::vector<StageShape>> teachers_of_rank = by_rank(teachers);
  Profiles profiles(shapes, teachers);
  const Layout layout = config.layout();
  MemoryPrediction prediction;
  prediction.ranks_alike = layout.tensor * layout.data;
  prediction.ranks.resize(static_cast<std::size_t>(schedule.ranks));
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    RankMemory& memory = prediction.ranks[at];
    memory.rank = layout.rank_of({0, 0, rank});
    memory.pipeline_rank = rank;
    memory.held = held_bytes(stages_of_rank[at], config, teachers_of_rank[at]);
    Walk(shapes, step, profiles, detail, memory).run();
    if (memory.peak.total() <= prediction.peak) continue;
    prediction.peak = memory.peak.total();
    prediction.peak_rank = memory.rank;
  }
  return prediction;
}

}  // namespace plumbline
