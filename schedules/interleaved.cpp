// Interleaved 1F1B (Narayanan et al. 2021, arXiv:2104.04473 §2.2.2). Rank r holds the stages chunk·P + r.
// Micro-batches go in groups of N, chunk by chunk within a group; the k-th backward is the k-th forward's
// micro-batch with the chunks in reverse. Warm-up min(2(P-1-r) + (V-1)N, M·V) forwards. Bubble
// (P-1)(f+b+w)/V; rank 0 holds at most P + (P-1)/V full-stage activations when N = P.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/error.hpp"
#include "schedules/generators.hpp"
#include "schedules/layouts.hpp"

namespace plumbline {
namespace {

struct Pass {
  int chunk;
  int microbatch;
};

std::vector<Pass> forward_order(int microbatches, int chunks, int group) {
  std::vector<Pass> order;
  order.reserve(static_cast<std::size_t>(microbatches) * static_cast<std::size_t>(chunks));
  for (int first = 0; first < microbatches; first += group) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int m = first; m < std::min(first + group, microbatches); ++m) order.push_back({chunk, m});
    }
  }
  return order;
}

}  // namespace

Schedule interleaved(int ranks, int microbatches, int chunks, int group, bool pairs) {
  Schedule schedule = looped("interleaved", ranks, microbatches, chunks);
  if (group < ranks || group > microbatches || (microbatches % group != 0 && microbatches % group < ranks)) {
    throw InputError(
        fmt::format("schedule interleaved: groups of {} with {} ranks and {} micro-batches; expected ranks "
                    "<= group <= micro-batches "
                    "and a last group that is full or has at least {} micro-batches",
                    group, ranks, microbatches, ranks));
  }
  const std::vector<Pass> order = forward_order(microbatches, chunks, group);
  const int passes = static_cast<int>(order.size());
  for (int rank = 0; rank < ranks; ++rank) {
    ActionList list(schedule, rank, 2 * order.size());
    const auto forward = [&](int k, bool overlaps_next = false) {
      const Pass pass = order[static_cast<std::size_t>(k)];
      list.add(ActionType::forward, pass.chunk * ranks + rank, pass.microbatch, overlaps_next);
    };
    const auto backward = [&](int k) {
      const Pass pass = order[static_cast<std::size_t>(k)];
      list.add(ActionType::backward, (chunks - 1 - pass.chunk) * ranks + rank, pass.microbatch);
    };
    const int warmup = std::min(2 * (ranks - 1 - rank) + (chunks - 1) * group + (pairs ? 1 : 0), passes);
    for (int k = 0; k < warmup; ++k) forward(k);
    for (int k = 0; k < passes - warmup; ++k) {
      forward(warmup + k, pairs);
      backward(k);
    }
    for (int k = passes - warmup; k < passes; ++k) backward(k);
  }
  return schedule;
}

}  // namespace plumbline
