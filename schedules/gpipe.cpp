// GPipe (Huang et al. 2019, arXiv:1811.06965): all forwards, then all backwards. P ranks, M micro-batches.
// Bubble (P-1)(f+b+w); every rank holds M activations.
#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"

namespace plumbline {

Schedule gpipe(int ranks, int microbatches) {
  Schedule schedule = one_stage_per_rank("gpipe", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    ActionList list(schedule, rank, 2 * static_cast<std::size_t>(microbatches));
    for (int m = 0; m < microbatches; ++m) list.add(ActionType::forward, rank, m);
    for (int m = 0; m < microbatches; ++m) list.add(ActionType::backward, rank, m);
  }
  return schedule;
}

}  // namespace plumbline
