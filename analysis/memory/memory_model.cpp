#include "analysis/memory/memory_model.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "analysis/memory/memory_walk.hpp"
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
void walk(const std::vector<StageShape>& shapes, const std::vector<Action>& actions, int microbatches,
          Profiles& profiles, MemoryDetail detail, RankMemory& memory) {
  // With ZeRO 1 a unit's reduction starts where its gradient becomes final, and the last one ends in ARG: the
  // few actions whose memory depends on their place.
  std::vector<FinalAction> final;
  if (!shapes.empty() && shapes.front().zero == 1) final = final_actions(shapes, actions);
  auto next_final = final.begin();
  ReductionUnderWay under_way;
  Extras extras(shapes, microbatches);

  MemoryBreakdown now = memory.held;
  std::int64_t now_total = now.total().value;
  std::int64_t peak_total = now_total;
  const Action* peak_action = nullptr;
  memory.peak = memory.held;
  if (detail == MemoryDetail::timeline) memory.timeline.reserve(actions.size());
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    Profiles::Entry here;
    const Profiles::Entry* entry = &here;
    const bool with_extra = extras.in(action);
    const bool is_final = next_final != final.end() && next_final->position == i;
    if (is_final || (under_way.piece > 0 && action.type == ActionType::reduce_gradients)) {
      const FinalUnits units = is_final ? (next_final++)->units : FinalUnits();
      here = Profiles::entry(action_profile(shapes[action.stage], action.type, units, under_way));
    } else {
      entry = &profiles.of(action, with_extra);
    }
    const ActionProfile& profile = entry->profile;
    MemoryBreakdown highest = now;
    if (now_total + entry->peak_total > peak_total || detail == MemoryDetail::timeline) {
      add(highest, profile.peak);
    }
    if (now_total + entry->peak_total > peak_total) {
      peak_total = now_total + entry->peak_total;
      memory.peak = highest;
      peak_action = &action;
    }
    add(now, profile.net);
    now_total += entry->net_total;
    if (detail == MemoryDetail::timeline) memory.timeline.push_back({highest, now});
  }
  if (peak_action != nullptr) memory.at = to_string(*peak_action);
}

}  // namespace

MemoryPrediction predict_memory(const RunConfig& config, const Schedule& schedule, MemoryDetail detail) {
  return predict_memory(config, schedule, detail, framework_of(config));
}

MemoryPrediction predict_memory(const RunConfig& config, const Schedule& schedule, MemoryDetail detail,
                                const cluster::Software* framework) {
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
  std::vector<RankMemory> by_pipeline_rank(static_cast<std::size_t>(schedule.ranks));
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    RankMemory& memory = by_pipeline_rank[at];
    memory.pipeline_rank = rank;
    memory.held = held_bytes(stages_of_rank[at], config, teachers_of_rank[at]);
    walk(shapes, schedule.actions[at], schedule.microbatches, profiles, detail, memory);
  }

  MemoryPrediction prediction;
  const Layout layout = config.layout();
  for (int rank = 0; rank < layout.world(); ++rank) {
    RankMemory memory = by_pipeline_rank[static_cast<std::size_t>(layout.coordinates(rank).pipeline)];
    memory.rank = rank;
    if (memory.peak.total() > prediction.peak) {
      prediction.peak = memory.peak.total();
      prediction.peak_rank = rank;
    }
    prediction.ranks.push_back(std::move(memory));
  }
  return prediction;
}

}  // namespace plumbline
