// ZB-V (Qi et al. 2024, arXiv:2405.15362 §4): two chunks per rank in a V, stages r and 2P-1-r on rank r.
// Rank r: 2(P-r)-1 F0; r times (F1, F0); P-r times (F1, I1, W1); then {F0, I0, W0, F1, I1, W1}; r times (I0,
// I1); P-r times (I0, W0); the remaining W1, then W0. No idle time when f = b = w; the ranks end (P-1)f/2
// apart, which a barrier turns into a bubble. At most P full-stage activations.
#include <algorithm>
#include <array>

#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"

namespace plumbline {

Schedule zb_v(int ranks, int microbatches) {
  Schedule schedule = v_shaped("zb-v", ranks, microbatches);
  schedule.barrier_at_end = false;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::array<int, 2> stages = {rank, 2 * ranks - 1 - rank};
    ActionList list(schedule, rank, 6 * static_cast<std::size_t>(microbatches));
    // Number of placed passes of each kind, by chunk. A pass that has no micro-batch left is left out.
    std::array<int, 2> forwards{};
    std::array<int, 2> inputs{};
    std::array<int, 2> weights{};
    const auto place = [&](ActionType type, std::array<int, 2>& count, std::size_t chunk) {
      if (count[chunk] < microbatches) list.add(type, stages[chunk], count[chunk]++);
    };
    const auto forward = [&](std::size_t chunk) { place(ActionType::forward, forwards, chunk); };
    const auto input = [&](std::size_t chunk) { place(ActionType::backward_input, inputs, chunk); };
    const auto weight = [&](std::size_t chunk) { place(ActionType::backward_weight, weights, chunk); };

    for (int i = 0; i < 2 * (ranks - rank) - 1; ++i) forward(0);
    for (int i = 0; i < rank; ++i) {
      forward(1);
      forward(0);
    }
    for (int i = 0; i < ranks - rank; ++i) {
      forward(1);
      input(1);
      weight(1);
    }
    for (int i = 0; i < microbatches - ranks; ++i) {
      forward(0);
      input(0);
      weight(0);
      forward(1);
      input(1);
      weight(1);
    }
    for (int i = 0; i < rank; ++i) {
      input(0);
      input(1);
    }
    for (int i = 0; i < ranks - rank; ++i) {
      input(0);
      weight(0);
    }
    for (int i = 0; i < microbatches; ++i) weight(1);
    for (int i = 0; i < microbatches; ++i) weight(0);
  }
  return schedule;
}

}  // namespace plumbline
