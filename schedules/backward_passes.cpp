// Passes that split backwards into input and weight gradients, and merge them again.
#include "schedules/passes.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/base/error.hpp"
#include "core/schedule/action_index.hpp"
#include "core/schedule/dependency_walk.hpp"

namespace plumbline {

Schedule split_backward(const Schedule& schedule) {
  Schedule result = schedule;
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    auto& out = result.actions[rank];
    out.clear();
    out.reserve(schedule.actions[rank].size() * 3 / 2);
    // The W of an overlapped pair follows the pair; W's follow transfers of the gradient, which are urgent.
    std::vector<Action> weights;
    const auto& actions = schedule.actions[rank];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      Action action = actions[i];
      const bool joined = action.overlaps_next || (i > 0 && actions[i - 1].overlaps_next);
      if (!weights.empty() && !joined && !is_send(action.type)) {
        out.insert(out.end(), weights.begin(), weights.end());
        weights.clear();
      }
      if (action.type == ActionType::backward) {
        weights.push_back({ActionType::backward_weight, false, action.stage, action.microbatch});
        action.type = ActionType::backward_input;
      }
      out.push_back(action);
    }
    out.insert(out.end(), weights.begin(), weights.end());
  }
  return result;
}

Schedule defer_output_gradients(Schedule schedule, std::int64_t most) {
  schedule.defers_output_gradient = true;
  for (auto& actions : schedule.actions) {
    std::vector<Action> weights;
    for (Action& action : actions) {
      if (action.type == ActionType::backward_input || action.overlaps_next) {
        throw InputError(fmt::format(
            "schedule {}: found {}, expected whole backwards that overlap nothing to defer the output "
            "layer's weight gradients of",
            schedule.name, to_string(action)));
      }
      if (action.type != ActionType::backward || !schedule.last_of_route(action.stage)) continue;
      if (static_cast<std::int64_t>(weights.size()) == most) break;
      weights.push_back({ActionType::backward_weight, false, action.stage, action.microbatch});
      action.type = ActionType::backward_input;
    }
    actions.insert(actions.end(), weights.begin(), weights.end());
  }
  return schedule;
}

Schedule merge_backward(const Schedule& schedule) {
  check_ranges(schedule);
  const ActionIndex index(schedule);
  Schedule result = schedule;
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    const auto& actions = schedule.actions[rank];
    auto& out = result.actions[rank];
    out.clear();
    for (std::size_t i = 0; i < actions.size(); ++i) {
      Action action = actions[i];
      if (action.type == ActionType::backward_input) {
        const auto weight = static_cast<std::size_t>(
            index.position(ActionType::backward_weight, action.stage, action.microbatch));
        bool close = weight > i && weight < actions.size();
        for (std::size_t between = i + 1; close && between < weight; ++between) {
          close = !is_compute(actions[between].type);
        }
        if (close) action.type = ActionType::backward;
      } else if (action.type == ActionType::backward_weight) {
        const auto input = index.position(ActionType::backward_input, action.stage, action.microbatch);
        bool close = input != ActionIndex::kAbsent && static_cast<std::size_t>(input) < i;
        for (std::size_t between = static_cast<std::size_t>(input) + 1; close && between < i; ++between) {
          close = !is_compute(actions[between].type);
        }
        if (close) continue;
      }
      out.push_back(action);
    }
  }
  return result;
}

}  // namespace plumbline
