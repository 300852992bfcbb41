// Sizes of one rank's share of a transformer layer, in elements.
#pragma once

#include <cstdint>

#include "core/config/run_config.hpp"
#include "kernels/operators.hpp"

namespace plumbline::training {

/// Widths of the rank's slices (see bench/training/README.md for the letters).
struct LayerWidths {
  explicit LayerWidths(const RunConfig& config);

  std::int64_t tokens;      // T: token rows of one micro-batch
  std::int64_t rows;        // R: rows of the residual stream on this rank
  std::int64_t hidden;      // h
  std::int64_t query;       // q
  std::int64_t key;         // k
  std::int64_t qkv;         // q + 2k
  std::int64_t ffn;         // F
  std::int64_t fc1;         // f
  std::int64_t experts;     // E, of a mixture; 0: none
  std::int64_t choices;     // T·k: rows that experts work on
  std::int64_t shared;      // Fs: of a mixture's shared expert; 0: none
  std::int64_t vocab;       // v: padded vocabulary columns of this rank
  std::int64_t norm_stats;  // n
  AttentionShape attention;
};

}  // namespace plumbline::training
