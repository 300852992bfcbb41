// Actions after the last backward: reductions and the optimizer.
#include "schedules/passes.hpp"

namespace plumbline {

Schedule add_step_end(Schedule schedule, StepEndActions end) {
  const int first = schedule.rank_of_stage.front();
  const int last = schedule.rank_of_stage[static_cast<std::size_t>(schedule.stages_per_route()) - 1];
  // These actions belong to the rank; they carry its lowest stage.
  std::vector<int> lowest(schedule.actions.size(), 0);
  for (int stage = schedule.stages - 1; stage >= 0; --stage) {
    lowest[static_cast<std::size_t>(schedule.rank_of_stage[static_cast<std::size_t>(stage)])] = stage;
  }
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    auto& actions = schedule.actions[static_cast<std::size_t>(rank)];
    const auto stage = static_cast<std::uint16_t>(lowest[static_cast<std::size_t>(rank)]);
    if (end.data_parallel || schedule.routes > 1)
      actions.push_back({ActionType::reduce_gradients, false, stage, 0});
    if (end.tied_embedding && schedule.routes == 1 && first != last && (rank == first || rank == last)) {
      actions.push_back({ActionType::reduce_embedding, false, stage, 0});
    }
    actions.push_back({ActionType::optimizer, false, stage, 0});
  }
  return schedule;
}

}  // namespace plumbline
