// A rank's part of a model that generates: parameters, cache, and the forward of a pass.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bench/training/blocks/forward_layers.hpp"
#include "bench/training/ends/embedding_norm.hpp"
#include "bench/training/ends/input_end.hpp"
#include "bench/training/ends/output_end.hpp"
#include "bench/training/generate/kv_cache.hpp"

namespace plumbline::generation {

/// Configuration of a GenerationModel: keys of training alone have no effect.
RunConfig generation_config(RunConfig config);
/// Its stages: one per pipeline rank.
training::StageMap stage_per_rank(const RunConfig& config);

/// One stage per pipeline rank, layers split over the tensor ranks as in training. Products are of all tokens
/// of a pass together, attention is by sequence. Nothing but the cache outlives a pass.
class GenerationModel {
 public:
  /// Parameters are undefined until loaded. All must outlive it. Throws OutOfMemory.
  GenerationModel(const RunConfig& config, Operators& operators, Communicator& communicator, Arena& arena);
  GenerationModel(const GenerationModel&) = delete;
  GenerationModel& operator=(const GenerationModel&) = delete;

  /// Allocates the cache, once before the first forward. Throws OutOfMemory.
  void make_cache() { cache_.allocate(stage_.part.layers); }

  /// Runs a pass: `tokens`, the ids of all its rows, `rows` the sequences that they belong to, in order.
  /// Logits (sequences, v) fp32 of every sequence's last token, on a last stage; empty on the others. v: the
  /// rank's columns of the vocabulary. Collective over the replica's ranks.
  Tensor forward(std::span<const SequenceRows> rows, std::span<const std::int32_t> tokens);

  bool last() const { return output_.has_value(); }
  /// World rank of the replica's last stage at tensor coordinate 0.
  int last_rank() const;
  Bytes cache_bytes() const { return cache_.bytes(); }
  const training::RankResources& resources() const { return rank_; }

 private:
  void begin_pass(std::span<const SequenceRows> rows, std::int64_t tokens);
  Tensor first_stream(std::span<const std::int32_t> tokens);
  Tensor logits_of_last(std::span<const SequenceRows> rows, Tensor stream);

  const RunConfig config_;
  Seconds tensor_communication_;
  training::RankResources rank_;
  const training::StageEntry& stage_;
  training::ForwardLayers layers_;
  std::optional<training::InputEnd> input_;
  std::optional<training::EmbeddingNorm> embedding_norm_;
  std::optional<training::OutputEnd> output_;
  std::vector<int> uses_;       // of units' values, in order
  Tensor rope_cos_, rope_sin_;  // of every position; empty without rotary embeddings
  Tensor positions_;            // (1, T) of the pass
  KeyValueCache cache_;
  CachedAttention attention_;
};

}  // namespace plumbline::generation
