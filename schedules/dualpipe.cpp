// DualPipe and DualPipeV (DeepSeek-AI 2024, arXiv:2412.19437 §3.2.1, and the DualPipe repository). DualPipe
// runs two copies of the model through the ranks in opposite directions; DualPipeV folds one model of 2P
// stages into a V. Both let a forward overlap with a backward of the other direction ("F&B"), and follow the
// same eight steps. Bubble (P/2-1)(F&B + B - 3W), with 2P stages in place of P for DualPipeV; at most P+1
// activations (DualPipe), P+1/2 (DualPipeV).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/error.hpp"
#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"

namespace plumbline {
namespace {

/// The eight steps of one rank. `depth` counts ranks from the place where a direction enters to the turning
/// point, `at` the rank's place among them.
class Steps {
 public:
  Steps(ActionList& list, std::array<int, 2> stages, std::array<int, 2> first_microbatch, int microbatches)
      : list_(list), stages_(stages), first_(first_microbatch), microbatches_(microbatches) {}

  void run(int depth, int at) {
    const int before = depth - 1 - at;
    for (int i = 0; i < 2 * before; ++i) forward(0);
    for (int i = 0; i < at + 1; ++i) {
      forward(0);
      forward(1);
    }
    for (int i = 0; i < before; ++i) {
      input(1);
      weight();
      forward(1);
    }
    const int steady = microbatches_ - 2 * depth + at + 1;
    for (int i = 0; i < steady; ++i) {
      // At the turning point the first backward needs the forward right before it.
      forward(0, !(i == 0 && at == depth - 1));
      backward(1);
      forward(1, true);
      backward(0);
    }
    for (int i = 0; i < before; ++i) {
      backward(1);
      forward(1, true);
      backward(0);
    }
    // Halfway through, weight gradients are put off.
    for (int i = 0; i < 2 * (at + 1); ++i) {
      const auto chunk = static_cast<std::size_t>(1 - i % 2);
      if (i < at + 1) {
        backward(chunk);
      } else {
        input(chunk);
      }
    }
    for (int i = 0; i < before; ++i) {
      weight();
      input(0);
    }
    for (int i = 0; i < at + 1; ++i) weight();
  }

 private:
  void forward(std::size_t chunk, bool overlaps_next = false) {
    list_.add(ActionType::forward, stages_[chunk], first_[chunk] + forwards_[chunk]++, overlaps_next);
  }
  void backward(std::size_t chunk) {
    list_.add(ActionType::backward, stages_[chunk], first_[chunk] + backwards_[chunk]++);
  }
  void input(std::size_t chunk) {
    const int m = first_[chunk] + backwards_[chunk]++;
    list_.add(ActionType::backward_input, stages_[chunk], m);
    pending_.push_back({stages_[chunk], m});
  }
  /// The oldest weight gradient put off.
  void weight() {
    const auto [stage, m] = pending_[done_++];
    list_.add(ActionType::backward_weight, stage, m);
  }

  ActionList& list_;
  std::array<int, 2> stages_;
  std::array<int, 2> first_;
  int microbatches_;
  std::array<int, 2> forwards_{};
  std::array<int, 2> backwards_{};
  std::vector<std::pair<int, int>> pending_;
  std::size_t done_ = 0;
};

}  // namespace

Schedule dualpipe_v(int ranks, int microbatches) {
  Schedule schedule = v_shaped("dualpipev", ranks, microbatches);
  if (microbatches < 2 * ranks) {
    throw InputError(
        fmt::format("schedule dualpipev: {} micro-batches with {} ranks; expected at least 2P = {}",
                    microbatches, ranks, 2 * ranks));
  }
  for (int rank = 0; rank < ranks; ++rank) {
    ActionList list(schedule, rank, 6 * static_cast<std::size_t>(microbatches));
    Steps(list, {rank, 2 * ranks - 1 - rank}, {0, 0}, microbatches).run(ranks, rank);
  }
  return schedule;
}

Schedule dualpipe(int ranks, int microbatches) {
  if (ranks % 2 != 0 || microbatches % 2 != 0 || microbatches < 2 * ranks) {
    throw InputError(
        fmt::format("schedule dualpipe: {} ranks, {} micro-batches; expected both even and at least 2P = {} "
                    "micro-batches",
                    ranks, microbatches, 2 * ranks));
  }
  Schedule schedule = looped("dualpipe", ranks, microbatches, 2);
  schedule.routes = 2;
  for (int stage = 0; stage < ranks; ++stage) {
    schedule.rank_of_stage[static_cast<std::size_t>(ranks) + static_cast<std::size_t>(stage)] =
        ranks - 1 - stage;
  }
  const int half = ranks / 2;
  for (int rank = 0; rank < ranks; ++rank) {
    ActionList list(schedule, rank, 6 * static_cast<std::size_t>(microbatches));
    const int down = rank;                // stage of the copy that enters at rank 0
    const int up = 2 * ranks - 1 - rank;  // stage of the copy that enters at rank P-1
    const int second = microbatches / 2;  // first micro-batch of the second copy
    if (rank < half) {
      Steps(list, {down, up}, {0, second}, second).run(half, rank);
    } else {
      Steps(list, {up, down}, {second, 0}, second).run(half, ranks - 1 - rank);
    }
  }
  return schedule;
}

}  // namespace plumbline
