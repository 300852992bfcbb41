// The files of a checkpoint that is to be written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/convert/pieces.hpp"

namespace plumbline::convert {

/// Tensors under one key: of Megatron "model", or "model0", "model1", …
struct PlannedDictionary {
  std::string key;
  std::vector<PlannedTensor> tensors;
};

/// One file of tensors: of torch.save where `torch`, else safetensors (with one dictionary).
struct PlannedFile {
  std::string path;  // in the checkpoint's folder
  bool torch = false;
  std::vector<PlannedDictionary> dictionaries;

  std::int64_t bytes() const;
};

struct PlannedText {
  std::string path;
  std::string text;
};

struct FilePlan {
  std::vector<PlannedFile> files;
  std::vector<PlannedText> texts;  // written when all files are
};

/// Layout of a Megatron checkpoint to write.
struct MegatronTarget {
  MegatronSizes sizes;
  std::int64_t vocabulary_multiple = 128;  // make_vocab_size_divisible_by
  VocabularyPadding padding = VocabularyPadding::repeat;
  bool grouped_experts = false;  // experts under the names of grouped products ("linear_fc1.weight0")
};

/// iter_0000001 with a folder per rank, and the tracker. Throws InputError when the model does not split so.
FilePlan plan_megatron(const ModelConfig& model, const MegatronTarget& target, const Checkpoint& source);
/// model.safetensors, or shards of at most `shard_bytes` (larger tensors excepted) and their index.
FilePlan plan_hugging_face(const ModelConfig& model, const Checkpoint& source, std::int64_t shard_bytes);

}  // namespace plumbline::convert
