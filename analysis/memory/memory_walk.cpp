#include "analysis/memory/memory_walk.hpp"

#include <algorithm>
#include <map>

namespace plumbline {
namespace {

/// Last positions of a stage's weight gradients.
struct LastGradients {
  std::size_t layers = 0;     // B or W; the output layer's, if not split
  std::size_t embedding = 0;  // B or I; positions
  std::size_t scores = 0;     // T
  std::size_t input = 0;      // IB
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
    if (type == ActionType::vocab_backward) last[actions[i].stage].scores = i;
    if (type == ActionType::input_backward) last[actions[i].stage].input = i;
  }
  std::map<std::size_t, FinalUnits> by_position;
  for (const auto& [stage, at] : last) {
    const StageShape& shape = stages[static_cast<std::size_t>(stage)];
    by_position[at.layers].layers = true;
    if (shape.first && shape.positions > 0) by_position[at.embedding].positions = true;
    if (shape.vocabulary.carries) {
      if (!shape.tied || at.scores > at.input) by_position[at.scores].output = true;
      if (!shape.tied || at.scores < at.input) by_position[at.input].embedding = true;
    }
    if (shape.scores() && !shape.shared_output) by_position[at.layers].output = true;
    if (!shape.embeds()) continue;
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
