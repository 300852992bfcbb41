// The handcrafted zero-bubble schedules ZB-H1 and ZB-H2 (Qi et al. 2023, arXiv:2401.10241 §2.1, §2.2). The
// backward is split into I (input gradient, on the critical path) and W (weight gradient, which fills gaps).
//
// ZB-H1: 1F1B's order; rank r runs its first r I's without a W, then follows every I with the oldest pending
// W. Bubble (P-1)(f+b-w); at most P activations.
//
// ZB-H2: 2(P-r)-1 warm-up forwards, then I, W (from the 2r-th I on), F; at most 2P-1 activations. Idle time
// within a rank (P-1)(f+b-2w); the ranks end (P-1)f apart, which a barrier turns into a bubble too. Needs M
// >= 2P-1.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"

namespace plumbline {

Schedule zb_h1(int ranks, int microbatches) {
  Schedule schedule = one_stage_per_rank("zb-h1", ranks, microbatches);
  for (int rank = 0; rank < ranks; ++rank) {
    ActionList list(schedule, rank, 3 * static_cast<std::size_t>(microbatches));
    int weights = 0;
    const auto backward = [&](int m) {
      list.add(ActionType::backward_input, rank, m);
      if (m >= rank) list.add(ActionType::backward_weight, rank, weights++);
    };
    const int warmup = std::min(ranks - 1 - rank, microbatches);
    for (int m = 0; m < warmup; ++m) list.add(ActionType::forward, rank, m);
    for (int m = 0; m < microbatches - warmup; ++m) {
      list.add(ActionType::forward, rank, m + warmup);
      backward(m);
    }
    for (int m = microbatches - warmup; m < microbatches; ++m) backward(m);
    while (weights < microbatches) list.add(ActionType::backward_weight, rank, weights++);
  }
  return schedule;
}

Schedule zb_h2(int ranks, int microbatches) {
  Schedule schedule = one_stage_per_rank("zb-h2", ranks, microbatches);
  if (microbatches < 2 * ranks - 1) {
    throw InputError(
        fmt::format("schedule zb-h2: {} micro-batches with {} ranks; expected at least 2P-1 = {}",
                    microbatches, ranks, 2 * ranks - 1));
  }
  schedule.barrier_at_end = false;
  for (int rank = 0; rank < ranks; ++rank) {
    ActionList list(schedule, rank, 3 * static_cast<std::size_t>(microbatches));
    int forwards = 0;
    int weights = 0;
    for (; forwards < 2 * (ranks - rank) - 1; ++forwards) list.add(ActionType::forward, rank, forwards);
    for (int m = 0; m < microbatches; ++m) {
      list.add(ActionType::backward_input, rank, m);
      if (m >= 2 * rank) list.add(ActionType::backward_weight, rank, weights++);
      if (forwards < microbatches) list.add(ActionType::forward, rank, forwards++);
    }
    while (weights < microbatches) list.add(ActionType::backward_weight, rank, weights++);
  }
  return schedule;
}

}  // namespace plumbline
