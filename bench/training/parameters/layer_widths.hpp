// Sizes of one rank's share of a transformer layer, in elements.
#pragma once

#include <cstdint>

#include "core/config/run_config.hpp"
#include "kernels/operators.hpp"

namespace plumbline::training {

/// Widths of the rank's slices (see bench/training/README.md for the letters).
struct LayerWidths {
  /// Widths of a micro-batch.
  explicit LayerWidths(const RunConfig& config);
  /// Widths of a pass over so many sequences of `seq` tokens on this rank.
  LayerWidths(const RunConfig& config, std::int64_t sequences, std::int64_t seq);

  /// Columns of the output layer on this rank: v, or 1 of a scalar head, padding on all tensor ranks but one.
  std::int64_t outputs(const ModelConfig& model) const { return model.embedding.scalar_head ? 1 : vocab; }

  std::int64_t tokens;    // T: token rows of one micro-batch
  std::int64_t rows;      // R: rows of the residual stream on this rank
  std::int64_t hidden;    // h
  std::int64_t query;     // q
  std::int64_t key;       // k
  std::int64_t value;     // k, with latent attention (heads/t)·values
  std::int64_t attended;  // q, with latent attention as values
  std::int64_t qkv;       // q + k + value
  std::int64_t ffn;       // F
  std::int64_t fc1;       // f
  // Latent attention; 0: none.
  std::int64_t query_rank;
  std::int64_t kv_rank;
  std::int64_t rotated;     // r: elements of the keys that all heads share
  std::int64_t compressed;  // C: query_rank + kv_rank + r
  std::int64_t own_keys;    // u: the other elements of the keys of the rank's heads
  // MoE layers; F and f above are those of the layers without experts.
  std::int64_t expert_ffn;
  std::int64_t expert_fc1;
  std::int64_t experts;     // E, of an MoE layer; 0: none
  std::int64_t choices;     // T·k: rows that experts work on
  std::int64_t local;       // experts of this rank: E, or E/G if they are spread over G ranks
  bool spread;              // they are, or are cut otherwise than all else
  bool folded;              // the latter: a rank sends the tokens of its rows of the stream
  std::int64_t sent;        // N: choices of the tokens that this rank sends, T·k, or R·k
  std::int64_t slices;      // ranks that each of them is sent to: 1, or all that have a slice of its expert
  std::int64_t shared;      // Fs: of an MoE layer's shared expert; 0: none
  std::int64_t vocab;       // v: padded vocabulary columns of this rank
  std::int64_t norm_stats;  // n
  AttentionShape attention;
};

}  // namespace plumbline::training
