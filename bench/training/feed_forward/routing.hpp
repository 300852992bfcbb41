// Routing of a micro-batch's tokens in an MoE layer.
#pragma once

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "core/tensor/arena.hpp"

namespace plumbline::training {

/// Kept from the forward to the backward. E experts, k of them for each of T tokens. N rows, those of every
/// expert together: T·k, or with a capacity fewer or padded ones. Where experts have their own sharding, N =
/// R·k of the tokens that this rank sends, numbered from its first on.
struct Routing {
  Tensor logits;   // (T, E) fp32
  Tensor chosen;   // (1, T·k) int32: experts of every token
  Tensor places;   // (1, T·k or R·k) int32: the rows of the choices that this rank sends
  Tensor tokens;   // (1, N) int32: the token of every row
  Tensor weights;  // (1, N) fp32: of every row
  Tensor load;     // (1, E) fp32: the micro-batch's load in the global balance loss; or empty
  std::vector<std::int64_t> chose;   // tokens that chose each expert; host memory
  std::vector<std::int64_t> counts;  // rows of each; likewise

  std::int64_t rows() const { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

  /// Frees tensors that only the router's backward reads.
  void drop_choices() {
    logits.reset();
    chosen.reset();
    places.reset();
    weights.reset();
    load.reset();
  }
  /// Frees tensors that are recomputed from the norm's output, not the load.
  void keep_load_only() {
    Tensor kept = std::move(load);
    *this = Routing();
    load = std::move(kept);
  }
};

}  // namespace plumbline::training
