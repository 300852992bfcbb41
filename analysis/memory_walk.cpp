#include "analysis/memory_walk.hpp"

#include <algorithm>
#include <map>

namespace plumbline {
namespace {

/// Last positions of a stage's weight gradients.
struct LastGradients {
  std::size_t layers = 0;     // B or W
  std::size_t embedding = 0;  // B or I
};

}  // namespace

std::vector<FinalAction> final_actions(std::span<const StageShape> stages,
                                       const std::vector<Action>& actions) {
  std::map<int, LastGradients> last;  // stages of this rank that have a backward
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const ActionType type = actions[i].type;
    const bool both = type == ActionType::backward;
    if (both || type == ActionType::backward_weight) last[actions[i].stage].layers = i;
    if (both || type == ActionType::backward_input) last[actions[i].stage].embedding = i;
  }
  std::map<std::size_t, FinalUnits> by_position;
  for (const auto& [stage, at] : last) {
    const StageShape& shape = stages[static_cast<std::size_t>(stage)];
    by_position[at.layers].layers = true;
    if (shape.first && shape.positions > 0) by_position[at.embedding].positions = true;
    if (shape.last && !shape.shared_output) by_position[at.layers].output = true;
    if (!shape.first) continue;
    // Whichever use of a shared embedding comes last; its own when both are in one action.
    std::size_t output = 0;
    bool shared = false;
    for (const auto& [other, other_at] : last) {
      if (!stages[static_cast<std::size_t>(other)].shared_output) continue;
      output = std::max(output, other_at.layers);
      shared = true;
    }
    if (shared && output > at.embedding) {
      by_position[output].output = true;
    } else {
      by_position[at.embedding].embedding = true;
    }
  }
  std::vector<FinalAction> result;
  result.reserve(by_position.size());
  for (const auto& [position, units] : by_position) result.push_back({position, units});
  return result;
}

}  // namespace plumbline
