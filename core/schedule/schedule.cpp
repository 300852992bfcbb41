#include "core/schedule/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/error.hpp"

namespace plumbline {

std::string_view name_of(ActionType type) {
  static constexpr std::array<std::string_view, kActionTypes> kNames = {
      "F", "B", "I",  "W",  "SEND_F", "RECV_F", "SEND_B", "RECV_B",  "TF",
      "S", "T", "IF", "IB", "ARG",    "ARE",    "OPT",    "SEND_TF", "RECV_TF"};
  return kNames[static_cast<std::size_t>(type)];
}

void check_actions(const std::string& name, std::int64_t actions) {
  if (actions <= kMostActions) return;
  throw InputError(
      fmt::format("schedule {}: {} actions, expected at most {}: use fewer ranks or micro-batches", name,
                  actions, kMostActions));
}

ActionTypes types_in(const Schedule& schedule) {
  ActionTypes present{};
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) present[static_cast<std::size_t>(action.type)] = true;
  }
  return present;
}

double peak_in_flight(const Schedule& schedule, int rank) {
  int held = 0;
  int most = 0;
  const ActionType split =
      schedule.defers_output_gradient ? ActionType::backward_input : ActionType::backward_weight;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
    if (action.type == ActionType::forward) most = std::max(most, ++held);
    if (action.type == ActionType::backward || action.type == split) --held;
  }
  return static_cast<double>(most) * schedule.ranks / schedule.stages_per_route();
}

std::string to_string(const Action& action) {
  return std::to_string(action.stage) + std::string(name_of(action.type)) + std::to_string(action.microbatch);
}

}  // namespace plumbline
