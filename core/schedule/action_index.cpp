#include "core/schedule/action_index.hpp"

namespace plumbline {

ActionIndex::ActionIndex(const Schedule& schedule)
    : microbatches_(static_cast<std::size_t>(schedule.microbatches)) {
  const std::size_t cells = static_cast<std::size_t>(schedule.stages) * microbatches_;
  for (int rank = 0; rank < schedule.ranks; ++rank) {
    const std::vector<Action>& actions = schedule.actions[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      auto& positions = positions_[static_cast<std::size_t>(action.type)];
      if (positions.empty()) positions.assign(cells, kAbsent);
      std::int32_t& place = positions[action.stage * microbatches_ + action.microbatch];
      if (place == kAbsent) {
        place = static_cast<std::int32_t>(i);
      } else if (duplicate_.rank < 0) {
        duplicate_ = {rank, static_cast<int>(i), place};
      }
    }
  }
}

}  // namespace plumbline
