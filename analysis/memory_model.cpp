#include "analysis/memory_model.hpp"

#include <array>
#include <utility>

#include "analysis/memory_walk.hpp"

namespace plumbline {
namespace {

void add(MemoryBreakdown& to, const MemoryBreakdown& what) {
  for (std::size_t c = 0; c < to.categories.size(); ++c) to.categories[c] += what.categories[c];
}

/// Profiles of the stages' actions, each replayed when it is first wanted.
class Profiles {
 public:
  explicit Profiles(const std::vector<StageShape>& shapes) : shapes_(shapes), known_(shapes.size()) {}

  struct Entry {
    ActionProfile profile;
    std::int64_t peak_total = 0;
    std::int64_t net_total = 0;
  };
  const Entry& of(const Action& action) {
    Known& stage = known_[action.stage];
    const auto type = static_cast<std::size_t>(action.type);
    if (!stage.has[type]) {
      stage.entries[type] = entry(action_profile(shapes_[action.stage], action.type));
      stage.has[type] = true;
    }
    return stage.entries[type];
  }
  static Entry entry(const ActionProfile& profile) {
    return {profile, profile.peak.total().value, profile.net.total().value};
  }

 private:
  struct Known {
    std::array<Entry, kActionTypes> entries;
    std::array<bool, kActionTypes> has{};
  };
  const std::vector<StageShape>& shapes_;
  std::vector<Known> known_;
};

/// Walks over a rank's actions, one after the other.
void walk(const std::vector<StageShape>& shapes, const std::vector<Action>& actions, Profiles& profiles,
          MemoryDetail detail, RankMemory& memory) {
  // With ZeRO 1 a unit's reduction starts where its gradient becomes final, and the last one ends in ARG: the
  // few actions whose memory depends on their place.
  std::vector<FinalAction> final;
  if (!shapes.empty() && shapes.front().zero == 1) final = final_actions(shapes, actions);
  auto next_final = final.begin();
  ReductionUnderWay under_way;

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
    const bool is_final = next_final != final.end() && next_final->position == i;
    if (is_final || (under_way.piece > 0 && action.type == ActionType::reduce_gradients)) {
      const FinalUnits units = is_final ? (next_final++)->units : FinalUnits();
      here = Profiles::entry(action_profile(shapes[action.stage], action.type, units, under_way));
    } else {
      entry = &profiles.of(action);
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
  const std::vector<StageShape> shapes = stage_shapes(config, schedule);
  std::vector<std::vector<StageShape>> stages_of_rank(static_cast<std::size_t>(schedule.ranks));
  for (const StageShape& shape : shapes) {
    const int rank = schedule.rank_of_stage[static_cast<std::size_t>(shape.stage)];
    stages_of_rank[static_cast<std::size_t>(rank)].push_back(shape);
  }
  Profiles profiles(shapes);
  std::vector<RankMemory> by_pipeline_rank(static_cast<std::size_t>(schedule.ranks));
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    RankMemory& memory = by_pipeline_rank[at];
    memory.pipeline_rank = rank;
    memory.held = held_bytes(stages_of_rank[at], config);
    walk(shapes, schedule.actions[at], profiles, detail, memory);
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
