#include "schedules/layouts.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

Schedule empty(const std::string& name, int ranks, int microbatches, int chunks) {
  check_sizes(name, ranks, microbatches, chunks);
  Schedule schedule;
  schedule.name = name;
  schedule.ranks = ranks;
  schedule.stages = ranks * chunks;
  schedule.microbatches = microbatches;
  schedule.rank_of_stage.resize(static_cast<std::size_t>(schedule.stages));
  schedule.actions.resize(static_cast<std::size_t>(ranks));
  return schedule;
}

}  // namespace

void check_sizes(const std::string& name, int ranks, int microbatches, int chunks) {
  constexpr int kMostStages = 65535;
  if (ranks < 1 || microbatches < 1 || chunks < 1 || ranks > kMostStages / chunks) {
    throw InputError(
        fmt::format("schedule {}: {} ranks, {} micro-batches, {} chunks; expected at least 1 of each and at "
                    "most {} stages",
                    name, ranks, microbatches, chunks, kMostStages));
  }
  // At least F and B.
  check_actions(name, std::int64_t{2} * ranks * microbatches);
}

Schedule one_stage_per_rank(const std::string& name, int ranks, int microbatches) {
  return looped(name, ranks, microbatches, 1);
}

Schedule looped(const std::string& name, int ranks, int microbatches, int chunks) {
  Schedule schedule = empty(name, ranks, microbatches, chunks);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    schedule.rank_of_stage[static_cast<std::size_t>(stage)] = stage % ranks;
  }
  return schedule;
}

Schedule v_shaped(const std::string& name, int ranks, int microbatches) {
  Schedule schedule = empty(name, ranks, microbatches, 2);
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.rank_of_stage[static_cast<std::size_t>(rank)] = rank;
    schedule.rank_of_stage[static_cast<std::size_t>(2 * ranks - 1 - rank)] = rank;
  }
  return schedule;
}

}  // namespace plumbline
