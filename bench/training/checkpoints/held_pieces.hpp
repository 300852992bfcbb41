// State of a rank that training resumes from, piece by piece. Weights in fp32 (master weights if the storage
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

/// Every element that trains once over all ranks. The first of several equal holders writes it; without ZeRO
/// replicas take the units in turn.
std::vector<HeldPiece> pieces_to_write(const RankStages& stages);
/// All that this rank owns, copies included.
std::vector<HeldPiece> pieces_to_read(const RankStages& stages);

/// Between a piece's memory and (rows × cols) contiguous numbers of the host.
void download_piece(Operators& operators, const Matrix& memory, float* host);
void upload_piece(Operators& operators, const float* host, const Matrix& memory);

}  // namespace plumbline::training
