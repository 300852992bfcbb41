// The states in a complete checkpoint, found by tensor and place, independent of the split that wrote them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/checkpoints/shard_names.hpp"
#include "core/files/safetensors.hpp"

namespace plumbline::training {

class SavedStates {
 public:
  /// Maps all shards. Throws InputError naming the shard, the tensor and the error: a shard that is missing
  /// or cannot be read, an invalid name, pieces that overlap or leave a part of their tensor out.
  SavedStates(const std::string& folder, int shards);

  /// The piece's elements, contiguous. Throws InputError when the checkpoint has no such tensor or one of
  /// another shape.
  void read(const std::string& state, const TensorPiece& piece, float* out) const;

 private:
  struct Stored {
    TensorPiece piece;
    const StoredTensor* values;
  };
  struct Whole {
    std::vector<Stored> pieces;  // by row, then column
    std::int64_t elements = 0;
  };
  void add_shard(const std::string& file);
  void check_whole() const;

  std::string folder_;
  std::vector<TensorFile> files_;
  std::map<std::pair<std::string, std::string>, Whole> tensors_;  // by state and name
};

}  // namespace plumbline::training
