// Keys and values of earlier tokens, and attention to them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/training/layer/layer_attention.hpp"

namespace plumbline::generation {

/// Category of the cache: the only activations that outlive a pass.
inline constexpr Category kCacheCategory = Category::activations;

/// Consecutive tokens of one sequence in a pass: its rows [row, row + count) are the positions [past,
/// past + count).
struct SequenceRows {
  std::int64_t slot = 0;  // of the sequence in the cache
  std::int64_t row = 0;
  std::int64_t count = 0;
  std::int64_t past = 0;
};

/// Cache of the rank's layers for micro_batch_size sequences of seq_length tokens. It holds
/// what attention reads: keys after their norms and rotation, values of the rank's key/value heads; with
/// latent attention the heads' own, not the compressed form. A layer with a window W keeps the last W
/// tokens, the one at position p in row p mod W.
class KeyValueCache {
 public:
  /// Empty, of layers from `first_layer` on.
  KeyValueCache(const training::TrainingContext& context, std::int64_t first_layer)
      : context_(context), first_layer_(first_layer) {}

  /// For `layers` layers, once. Throws OutOfMemory.
  void allocate(std::int64_t layers);

  /// Tokens of a sequence that the layer keeps.
  std::int64_t capacity(std::int64_t layer) const { return of(layer).rows; }
  /// Keeps the keys and values of the sequence's rows in `in`, which has those of the whole pass.
  void store(std::int64_t layer, const SequenceRows& rows, const training::QueryKeyValue& in) const;
  /// The first `count` kept rows of a sequence.
  Matrix keys(std::int64_t layer, std::int64_t slot, std::int64_t count) const;
  Matrix values(std::int64_t layer, std::int64_t slot, std::int64_t count) const;
  Bytes bytes() const;

 private:
  struct LayerCache {
    std::int64_t rows;    // of a sequence
    Tensor keys, values;  // (sequences·rows, k), (sequences·rows, value)
  };
  const LayerCache& of(std::int64_t layer) const {
    return layers_[static_cast<std::size_t>(layer - first_layer_)];
  }

  const training::TrainingContext& context_;
  const std::int64_t first_layer_;
  std::vector<LayerCache> layers_;
};

/// Attention of a pass, sequence by sequence: of a sequence's first tokens to each other, of a later token to
/// the cache. Stores the pass's keys and values.
class CachedAttention final : public training::CoreAttention {
 public:
  /// Both must outlive it.
  CachedAttention(const training::TrainingContext& context, const KeyValueCache& cache, Matrix scratch)
      : context_(context), cache_(cache), scratch_(scratch) {}
  /// The sequences of the next pass; `rows` must outlive it. A sequence has several rows only with `past` 0.
  void begin_pass(std::span<const SequenceRows> rows) { rows_ = rows; }
  void forward(const AttentionShape& shape, std::int64_t layer, const training::QueryKeyValue& in,
               const training::AttentionTensors& saved) const override;

 private:
  const training::TrainingContext& context_;
  const KeyValueCache& cache_;
  const Matrix scratch_;
  std::span<const SequenceRows> rows_;
};

}  // namespace plumbline::generation
