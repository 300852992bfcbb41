// Comparison of two checkpoints: each is evaluated on the same tokens by the forward of the training step.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/convert/checkpoint.hpp"
#include "core/tensor/dtype.hpp"

namespace plumbline::training {

constexpr std::size_t kTopTokens = 5;

struct CheckRequest {
  std::array<std::string, 2> folders;
  std::string model;   // of both; empty: each side's config.json, or the other's if it has none
  std::string tokens;  // a file; empty: drawn by the seed
  std::uint64_t seed = 1;
  int sequences = 4;
  std::int64_t seq_length = 0;    // 0: 64, or the model's number of positions
  DType precision = DType::fp32;  // of weights and products
  double tolerance = 1e-5;        // of the difference of a sequence's losses
};

/// Result of one checkpoint for one sequence.
struct SequenceOutcome {
  double loss = 0;  // mean of its tokens
  std::vector<std::int32_t>
      top;  // the likeliest ids behind the last token, likeliest first; of equals the lower id
};

struct CheckedSequence {
  std::array<SequenceOutcome, 2> sides;
  double difference = 0;  // of the losses
  bool same = false;      // that is within the tolerance, and `top` is equal
};

struct CheckReport {
  std::array<convert::CheckpointFormat, 2> formats{};
  std::string architecture;
  std::int64_t seq_length = 0;
  std::vector<CheckedSequence> sequences;
  int different = 0;
};

/// Sequences evaluated, of all.
using CheckProgress = std::function<void(int done, int all)>;

/// One side after the other, so that memory holds one model's parameters. Throws InputError: as
/// open_checkpoint, models of different vocabularies, tokens outside of it, sequences longer than the model's
/// positions.
CheckReport check_checkpoints(const CheckRequest& request, const CheckProgress& progress);

}  // namespace plumbline::training
