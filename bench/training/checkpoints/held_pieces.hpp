// What a rank holds that training goes on from, piece by piece: weights in fp32 (master weights where the storage
// type is another), Adam's moments, the state of FP8 scaling.
#pragma once

#include <string>
#include <vector>

#include "bench/training/checkpoints/shard_names.hpp"
#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

struct HeldPiece {
  std::string state;
  TensorPiece piece;
  Matrix memory;  // (rows, cols) fp32, in the rank's own memory
};

/// Every element of the model once over all ranks: of what several hold alike the first one writes it, and without
/// ZeRO replicas take the units in turn.
std::vector<HeldPiece> pieces_to_write(const RankStages& stages);
/// All that this rank owns, copies included.
std::vector<HeldPiece> pieces_to_read(const RankStages& stages);

/// Between a piece's memory and (rows × cols) contiguous numbers of the host.
void download_piece(Operators& operators, const Matrix& memory, float* host);
void upload_piece(Operators& operators, const float* host, const Matrix& memory);

}  // namespace plumbline::training
