// 1F1B with flush (PipeDream-Flush, Narayanan et al. 2021, arXiv:2006.09503 and 2104.04473 §2.2.1). P ranks,
// M micro-batches: rank r does w = min(P-1-r, M) forwards, then pairs (F, B), then w backwards. Bubble
// (P-1)(f+b+w); rank r holds at most min(P-r, M) activations.
#include <algorithm>

#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"

namespace plumbline {

Schedule one_f_one_b(int ranks, int microbatches) {
  return one_f_one_b_ahead(ranks, microbatches, 0);
}

Schedule one_f_one_b_ahead(int ranks, int microbatches, int ahead) {
  Schedule schedule = one_stage_per_rank("1f1b", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    const int warmup = std::min(ranks - 1 - rank + ahead, microbatches);
    ActionList list(schedule, rank, 2 * static_cast<std::size_t>(microbatches));
    for (int m = 0; m < warmup; ++m) list.add(ActionType::forward, rank, m);
    for (int m = 0; m < microbatches - warmup; ++m) {
      list.add(ActionType::forward, rank, m + warmup);
      list.add(ActionType::backward, rank, m);
    }
    for (int m = microbatches - warmup; m < microbatches; ++m) list.add(ActionType::backward, rank, m);
  }
  return schedule;
}

Schedule one_f_one_b_pairs(int ranks, int microbatches) {
  Schedule schedule = one_stage_per_rank("1f1b", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    // A gradient comes back two pairs after the activation went to the next rank.
    const int warmup = std::min(2 * (ranks - 1 - rank) + 1, microbatches);
    ActionList list(schedule, rank, 2 * static_cast<std::size_t>(microbatches));
    for (int m = 0; m < warmup; ++m) list.add(ActionType::forward, rank, m);
    for (int m = 0; m < microbatches - warmup; ++m) {
      list.add(ActionType::forward, rank, m + warmup, true);
      list.add(ActionType::backward, rank, m);
    }
    for (int m = microbatches - warmup; m < microbatches; ++m) list.add(ActionType::backward, rank, m);
  }
  return schedule;
}

}  // namespace plumbline
