// Sizes of one rank's share of a transformer stage, in elements.
#pragma once

#include <cstdint>

#include "core/run_config.hpp"
#include "kernels/operators.hpp"

namespace plumbline::training {

/// Which part of the model a rank holds.
struct StagePart {
  int stage = 0;
  int stages = 1;
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  int tensor_rank = 0;
  int tensor_size = 1;

  bool first() const { return stage == 0; }
  bool last() const { return stage == stages - 1; }
};
StagePart part_of(const RunConfig& config, int stage, int tensor_rank);

/// Widths of the rank's slices (see README.md in this folder for the letters).
struct StageShape {
  explicit StageShape(const RunConfig& config);

  std::int64_t tokens;      // T: rows of one micro-batch
  std::int64_t hidden;      // h
  std::int64_t query;       // q
  std::int64_t key;         // k
  std::int64_t qkv;         // q + 2k
  std::int64_t ffn;         // F
  std::int64_t fc1;         // f
  std::int64_t vocab;       // v: padded vocabulary columns of this rank
  std::int64_t norm_stats;  // n
  AttentionShape attention;
};

}  // namespace plumbline::training
