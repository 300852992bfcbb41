// The token embedding of a vocabulary that is split over all ranks of the model: the passes IF and IB.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/training/ends/exposed_waits.hpp"
#include "bench/training/ends/rank_resources.hpp"

namespace plumbline::training {

/// One rank's rows of the table. The ranks' parts of the embedded tokens are summed for the first rank; the
/// gradient goes to all from there. bench/training/vocabulary.md lists allocations, messages and waits.
class EmbeddingShard {
 public:
  /// Allocates the persistent buffers of the run.
  EmbeddingShard(RankResources& rank, ExposedWaits& waits);

  /// IF; `x` (T, h) is the input of the first stage on the first rank, empty elsewhere.
  void forward(std::uint32_t microbatch, const Matrix& x);
  /// On the first rank, in F: waits until x has come.
  void finish_forward(std::uint32_t microbatch);
  /// On the first rank, in B or I: takes the gradient of x and sends it to all.
  void start_backward(std::uint32_t microbatch, Tensor gradient);
  /// IB
  void backward(std::uint32_t microbatch);
  /// Waits for calls still in progress.
  void finish_step();

 private:
  struct Microbatch {
    Tensor gradient;  // first rank, from B or I to IB
    Ticket embedded, gradient_ready;
  };
  Microbatch& at(std::uint32_t microbatch) { return microbatches_[microbatch]; }
  void join_gradient(std::uint32_t microbatch);
  void broadcast_gradient(std::uint32_t microbatch, const Matrix& gradient);

  RankResources& rank_;
  ExposedWaits& waits_;
  const Parameter& table_;
  const int unit_;
  const std::vector<int> uses_;  // of the unit's values, in IF
  const bool first_;             // this rank has the first stage
  const int root_;               // world rank of the one that has
  const std::int64_t first_token_;
  std::vector<Microbatch> microbatches_;
  Tensor held_embedded_, held_gradient_;  // not on the first rank
};

}  // namespace plumbline::training
