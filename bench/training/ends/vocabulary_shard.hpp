// The output layer of a vocabulary that is split over all ranks of the model: the passes S and T.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "bench/training/ends/exposed_waits.hpp"
#include "bench/training/ends/rank_resources.hpp"

namespace plumbline::training {

/// One rank's columns of logits and loss (Yeung et al. 2024, arXiv:2411.05288 §3-4). With one barrier
/// (Algorithm 2) the gradient of the hidden states is computed before the shards have met, and corrected
/// afterwards. With two (Algorithm 1) it is computed after they have met. bench/training/vocabulary.md lists
/// allocations, messages and waits.
class VocabularyShard {
 public:
  /// Allocates the persistent buffers of the run.
  VocabularyShard(RankResources& rank, ExposedWaits& waits);

  void start_step() { losses_ = {}; }
  /// On the last rank, in F: the final norm's output is there for all.
  void start_hidden(std::uint32_t microbatch, Tensor norm);
  /// On the others: it will come. Nothing on the last rank.
  void join_hidden(std::uint32_t microbatch);
  /// S
  void forward(std::uint32_t microbatch);
  /// T
  void backward(std::uint32_t microbatch);
  /// On the last rank, in B or I: the gradient of the final norm's output.
  Tensor hidden_gradient(std::uint32_t microbatch);
  /// Waits for calls still in progress.
  void finish_step();

  /// Sum of the token losses of this step, once the operators have been waited for; 0 except on the last
  /// rank.
  double loss_sum() const { return losses_.value(); }

 private:
  /// State from S to T (on the last rank the hidden states from F and their gradient to B or I).
  struct Microbatch {
    Tensor hidden, logits, statistics, hidden_gradient;
    Tensor target_rows;  // where the table is gone when it is needed
    Ticket hidden_ready, statistics_ready, gradient_ready;
  };
  Microbatch& at(std::uint32_t microbatch) { return microbatches_[microbatch]; }
  Matrix own_statistics(const Matrix& statistics, std::int64_t row, std::int64_t rows) const;
  Matrix alpha(const Matrix& statistics) const;
  void start_statistics(std::uint32_t microbatch, const Matrix& table);
  void combine(std::uint32_t microbatch);
  void hidden_gradient_product(const Microbatch& here, const Matrix& table);
  /// Two barriers: buffer for the gradient of the hidden states.
  Matrix gradient_place(std::uint32_t microbatch);

  RankResources& rank_;
  ExposedWaits& waits_;
  const StageEntry& stage_;  // the rank's lowest: it has the shard
  const Parameter& weight_;
  const int unit_;
  const std::vector<int> uses_;  // of the unit's values, in S and in T
  const bool one_barrier_;
  const bool loss_in_fp32_;  // on a copy of 16-bit logits
  const bool last_;          // this rank has the last stage
  const int root_;           // world rank of the one that has
  const int shards_;
  const std::int64_t first_token_;
  const std::int64_t valid_;  // columns that are no padding
  std::vector<Microbatch> microbatches_;
  std::array<Tensor, 2> held_gradients_;  // two barriers: of even and odd micro-batches; not on the last rank
  NumberSum losses_;
};

}  // namespace plumbline::training
