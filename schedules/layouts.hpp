// Helpers of generators: empty schedules with their stages placed on ranks, and a writer for a rank's list.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Throws InputError unless ranks and micro-batches are at least 1 and the stages fit the 16 bits of an
/// Action.
void check_sizes(const std::string& name, int ranks, int microbatches, int chunks);

/// Stage r on rank r.
Schedule one_stage_per_rank(const std::string& name, int ranks, int microbatches);
/// Stage chunk·P + r on rank r.
Schedule looped(const std::string& name, int ranks, int microbatches, int chunks);
/// Stages r and 2P-1-r on rank r.
Schedule v_shaped(const std::string& name, int ranks, int microbatches);

/// Appends actions to one rank of a schedule.
class ActionList {
 public:
  ActionList(Schedule& schedule, int rank, std::size_t expected)
      : actions_(schedule.actions[static_cast<std::size_t>(rank)]) {
    actions_.reserve(expected);
  }
  void add(ActionType type, int stage, int microbatch, bool overlaps_next = false) {
    actions_.push_back(
        {type, overlaps_next, static_cast<std::uint16_t>(stage), static_cast<std::uint32_t>(microbatch)});
  }

 private:
  std::vector<Action>& actions_;
};

}  // namespace plumbline
