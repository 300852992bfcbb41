#include "bench/plan/rehearsed_step.hpp"

#include <set>
#include <tuple>
#include <vector>

#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

/// Type and stage of an action, and of its partner in an overlapped pair.
using ActionKind = std::tuple<ActionType, int, int>;

std::vector<std::set<ActionKind>> kinds_of(const Schedule& schedule) {
  std::vector<std::set<ActionKind>> kinds;
  for (const std::vector<Action>& actions : schedule.actions) {
    std::set<ActionKind>& of_rank = kinds.emplace_back();
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const bool pair = actions[i].overlaps_next && i + 1 < actions.size();
      of_rank.emplace(actions[i].type, actions[i].stage, pair ? int{actions[i + 1].stage} : -1);
    }
  }
  return kinds;
}

}  // namespace

PlannedStep rehearsed_step(const RunConfig& config, const Schedule& whole) {
  const int ranks = config.parallel.pipeline;
  const std::vector<std::set<ActionKind>> wanted = kinds_of(whole);
  for (const int microbatches : std::set<int>{2, ranks, 2 * ranks, 3 * ranks, 4 * ranks}) {
    if (microbatches < 2 || microbatches >= config.microbatches()) continue;
    PlannedStep made{config, {}};
    made.config.batch.global_batch_size =
        config.batch.global_batch_size / config.microbatches() * microbatches;
    try {
      if (why_invalid(made.config)) continue;
      made.schedule = schedule_for(made.config);
    } catch (const InputError&) {
      continue;  // sizes that the schedule does not take
    }
    if (kinds_of(made.schedule) == wanted) return made;
  }
  return {config, whole};
}

}  // namespace plumbline
