// A checkpoint of any format as the whole tensors that Hugging Face's layout has.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "bench/convert/checkpoint.hpp"

namespace plumbline::convert {

/// True if the folder holds a checkpoint that is read this way: one of Megatron's formats, or .bin files
/// without safetensors.
bool needs_whole_tensors(const std::string& path);

class WholeTensors {
 public:
  /// Throws InputError as open_checkpoint, and for a model that Megatron-Core does not have.
  WholeTensors(const std::string& folder, const ModelConfig& model);

  /// Assembled on request, and valid until the next request. Throws Error when there is none of that name.
  const StoredTensor& get(const std::string& name);
  /// Tensors that the model has no place for.
  const std::vector<std::string>& unused() const { return checkpoint_.unused; }

 private:
  Checkpoint checkpoint_;
  std::map<std::string, TensorLayout> layouts_;
  std::string name_;  // of the current one
  StoredTensor tensor_;
  std::vector<std::byte> bytes_;
};

}  // namespace plumbline::convert
