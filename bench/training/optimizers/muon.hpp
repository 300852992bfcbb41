// Muon's update of the matrices of a unit (bench/training/optimizers.md).
#pragma once

#include <vector>

#include "bench/training/parameters/context.hpp"
#include "bench/training/parameters/parameter_memory.hpp"

namespace plumbline::training {

/// Way in which tensor ranks share a matrix.
enum class TensorCut { none, rows, columns };

/// Rows of a parameter that are made orthogonal together.
struct MuonBlock {
  std::int64_t first = 0;  // element of the unit
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  TensorCut cut = TensorCut::none;  // to be gathered

  std::int64_t elements() const { return rows * cols; }
};

/// The blocks of a unit, in the order of its parameters: queries, keys and values apart with split_qkv, both
/// parts of latent attention's joint matrix, every expert.
std::vector<MuonBlock> muon_blocks(const TrainingContext& context, const StageEntry& stage,
                                   int unit_of_stage);

/// Updates this rank's elements of the unit: averages gradients, with sharded states gathers the averages of
/// all pieces, makes the blocks that have elements here orthogonal, and adds them. Throws OutOfMemory.
void update_with_muon(const TrainingContext& context, const ParameterMemory& memory, const StageEntry& stage,
                      int unit_of_stage, double gradient_scale);

}  // namespace plumbline::training
