// Work and memory of Muon's update on one rank (bench/training/optimizers.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "analysis/work/operator_list.hpp"
#include "analysis/work/parameter_units.hpp"

namespace plumbline {

/// Ways in which tensor ranks share a matrix that they gather to make it orthogonal.
enum class BlockCut : std::uint8_t { none, rows, columns };

/// Rows of a matrix of a layer that become orthogonal together, as this tensor rank has them.
struct OrthogonalBlock {
  std::int64_t first = 0;  // element of its unit
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  BlockCut cut = BlockCut::none;
  std::int64_t elements() const { return rows * cols; }
};

/// A unit of matrices, and those equal to it.
struct OrthogonalUnit {
  std::int64_t count = 0;
  std::vector<OrthogonalBlock> blocks;
  ParameterUnit unit;
};
/// The units of a stage that Muon updates.
std::vector<OrthogonalUnit> orthogonal_units(const StageShape& shape);

/// Calls of the own step's update of a stage's matrices; `piece` as in update_calls().
std::vector<OperatorCall> muon_calls(const StageShape& shape, std::optional<OwnedPiece> piece);
/// Calls of Megatron-Core's update of matrices on one rank. With sharded states every matrix has one owner.
std::vector<OperatorCall> framework_muon_calls(std::span<const StageShape> stages);
/// Bytes that the update of the stage's fullest unit allocates, of the own step.
std::int64_t muon_workspace(const StageShape& shape);

/// FLOPs of the Newton-Schulz steps of a block.
double newton_schulz_flops(const StageShape& shape, const OrthogonalBlock& block);

}  // namespace plumbline
