// The tensors of Megatron-Core's models on each rank, in the legacy layout of a folder per rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/convert/layout.hpp"

namespace plumbline::convert {

/// Ranks that share a model, as Megatron-LM names them.
struct MegatronSizes {
  int tensor = 1;
  int pipeline = 1;
  int virtual_chunks = 1;  // per pipeline rank
  int expert = 1;
  friend bool operator==(const MegatronSizes&, const MegatronSizes&) = default;
};

/// Padding of a vocabulary: copies of its last row, as Megatron's own tools do, or zeros, as Megatron-Bridge
/// does. It is never read: a reader gives zero.
enum class VocabularyPadding { repeat, zero };

/// One chunk of a pipeline: layers, numbered from 0 within it, and the ends it has.
struct MegatronChunk {
  std::int64_t first_layer = 0;
  std::int64_t layers = 0;
  bool first = false;
  bool last = false;
};

/// A rank's share of one chunk; experts are split into one contiguous part per expert rank.
struct MegatronRank {
  MegatronChunk chunk;
  int tensor_rank = 0;
  int expert_rank = 0;
  /// Rows of the whole padded vocabulary: rows of each tensor rank times their number.
  std::int64_t padded_vocab = 0;
  VocabularyPadding padding = VocabularyPadding::repeat;
  bool grouped_experts = false;  // names of experts: those of grouped products, or `also` those
};

/// Names are those of the Transformer Engine specification, `also` those of the local one.
std::vector<TensorLayout> megatron_layout(const ModelConfig& model, const MegatronSizes& sizes,
                                          const MegatronRank& rank);

/// ceil(vocab / (multiple · tensor)) · multiple · tensor.
std::int64_t padded_vocabulary(std::int64_t vocab, std::int64_t multiple, int tensor);
/// Chunk `chunk` of pipeline rank `rank`, layers spread evenly: stage chunk · pipeline + rank of the model.
MegatronChunk even_chunk(const ModelConfig& model, const MegatronSizes& sizes, int rank, int chunk);
/// "mp_rank_01_002_003"; the pipeline and the expert rank stand if there is more than one.
std::string rank_folder(const MegatronSizes& sizes, int tensor, int pipeline, int expert);

/// Why Megatron-Core cannot hold such a model at all, or not with these sizes; one line, or empty.
std::optional<std::string> why_not_megatron(const ModelConfig& model);
std::optional<std::string> why_not_split(const ModelConfig& model, const MegatronSizes& sizes);
/// Likewise, without the requirement of whole layers in equal chunks, which only applies to writing.
std::optional<std::string> why_not_even(const ModelConfig& model, const MegatronSizes& sizes);

}  // namespace plumbline::convert
