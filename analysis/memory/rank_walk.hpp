// Walk over the actions of one rank: memory held, and its peak.
#pragma once

#include <vector>

#include "analysis/memory/action_memory.hpp"
#include "analysis/memory/memory_walk.hpp"
#include "analysis/memory/rank_memory.hpp"
#include "analysis/step/step_model.hpp"
#include "analysis/work/routing/routed_rows.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// Profiles of all stages' actions.
class WalkedProfiles {
 public:
  /// `profiles`: by kind of stage, or, with `teachers`, by stage. References are kept.
  WalkedProfiles(const StepModel& model, const std::vector<StageProfiles*>& profiles)
      : kinds_(model.kinds), teachers_(model.teachers), profiles_(profiles) {}

  /// Until the next call. `with_extra` as of action_profile.
  const StageProfiles::Entry& of(const Action& action, bool with_extra);

 private:
  const StageKinds& kinds_;
  const std::vector<StageShape>& teachers_;
  const std::vector<StageProfiles*>& profiles_;
};

/// Rows of experts, if the routing is known.
struct WalkedRows {
  const RoutedRows* student = nullptr;
  const RoutedRows* teacher = nullptr;
};

/// Sets peak, its action and, where asked for, the timeline of `memory`, whose held bytes are there.
void walk_rank(const StepModel& model, const RepeatedSchedule& step, const MemoryPlan::Rank& plan,
               WalkedProfiles& profiles, MemoryDetail detail, const WalkedRows& rows, RankMemory& memory);

}  // namespace plumbline
