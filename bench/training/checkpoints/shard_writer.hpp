// One rank's shard: its states copied to the host, and written to a file from there.
#pragma once

#include <string>
#include <vector>

#include "bench/training/checkpoints/held_pieces.hpp"
#include "bench/training/checkpoints/step_folder.hpp"

namespace plumbline::training {

class ShardWriter {
 public:
  /// The buffer, host memory outside of the arena, is as large as everything that this rank writes, and is
  /// taken once.
  explicit ShardWriter(const RankStages& stages);

  Bytes buffer() const { return {std::ssize(values_) * size_of(DType::fp32)}; }
  /// Copies the states as they are now. Not while write() runs.
  void copy();
  /// Writes the copied states, brings them to the disk, reads them again and compares. Needs no other rank
  /// and nothing of the stages: may run on a thread of its own. Throws Error or InputError.
  ShardFacts write(const std::string& file) const;

 private:
  Operators& operators_;
  std::vector<HeldPiece> pieces_;
  std::vector<float> values_;  // piece after piece
};

}  // namespace plumbline::training
