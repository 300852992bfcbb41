// A checkpoint on disk, of either format, opened and held against its model.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/convert/layout.hpp"
#include "bench/convert/megatron_layout.hpp"
#include "core/base/mapped_file.hpp"
#include "core/checkpoints/torch_file.hpp"
#include "core/files/safetensors.hpp"

namespace plumbline::convert {

/// distributed: Megatron-Core's torch_dist, which is read, not written.
enum class CheckpointFormat { hugging_face, megatron, distributed };
std::string_view name_of(CheckpointFormat format);  // "hf", "megatron", "torch_dist"

/// A tensor of a checkpoint, mapped, and its blocks of the model.
struct HeldTensor {
  StoredTensor stored;
  TensorLayout layout;
  std::string file;  // for messages
};

/// One block of one tensor.
struct HeldBlock {
  std::size_t tensor = 0;
  std::size_t block = 0;
};

struct Checkpoint {
  CheckpointFormat format = CheckpointFormat::hugging_face;
  MegatronSizes sizes;
  std::vector<HeldTensor> tensors;
  std::map<std::string, std::vector<HeldBlock>>
      places;                       // of each of the model's own tensors, without overlap
  std::vector<std::string> unused;  // tensors that the model has no place for
  bool dequantized = false;         // has FP8 matrices, whose values are read as bf16
  bool optimizer = false;           // has states of an optimizer as well
  std::vector<std::string> files;

  // Files that the tensors point into.
  std::vector<TensorFile> safetensors;
  std::vector<TorchFile> torch_files;
  std::vector<MappedFile> mapped;

  const Block& block(const HeldBlock& held) const { return tensors[held.tensor].layout.blocks[held.block]; }
};

/// Format of the checkpoint in the folder; only names are read. Empty when it is none. Throws InputError for
/// a tracker that names nothing.
std::optional<CheckpointFormat> find_format(const std::string& folder);
/// The same; throws InputError when it is none.
CheckpointFormat format_of(const std::string& folder);

/// Throws InputError: tensors, shards or ranks that are missing, other shapes than the model's, whole
/// numbers, differing copies of one tensor on several ranks.
Checkpoint open_checkpoint(const std::string& folder, const ModelConfig& model);

// The ways to do so.
Checkpoint open_hugging_face(const std::string& folder, const ModelConfig& model);
Checkpoint open_megatron(const std::string& folder, const ModelConfig& model);
Checkpoint open_distributed(const std::string& folder, const ModelConfig& model);
/// The folder of the iteration that latest_checkpointed_iteration.txt names, or the folder itself if it has
/// none.
std::string iteration_folder(const std::string& folder);
/// Adds a tensor of the checkpoint under its layout, once it has been held against it.
void hold(Checkpoint& checkpoint, const StoredTensor& stored, TensorLayout layout, const std::string& file);

}  // namespace plumbline::convert
