// Cells of the calibration: one per operator, size and working set.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/measure/calibrate/cells/pools.hpp"
#include "kernels/operators.hpp"

namespace plumbline::calibration {

/// Working sets of the tables: everything in the private cache, in the shared cache (others may use part of
/// it), in memory.
constexpr std::array<Bytes, 3> kWorkingSets = {kMiB, kMiB * 6, kMiB * 192};

/// Operands of fewer bytes are not measured in the largest working set: the next smaller one is used for it.
constexpr std::int64_t kFewBytes = 32 << 10;

/// `level`: no time of a table, but how far from one table to the next a working set is.
enum class Table { gemm, attention, memory_bound, by_row, level };

using CellCall = std::function<void(std::int64_t call)>;

struct Cell {
  Table table = Table::gemm;
  std::string key;  // "forward.bf16", "forward_dropout.bf16", see analysis/hardware/hardware.hpp
  std::array<double, 3>
      at{};  // the table's axes; memory_bound uses the first; of a level the working set in bytes
  std::size_t working_set = 0;  // index into kWorkingSets; of a level the one below
  DType storage = DType::fp32;
  double parts = 1;  // the time is divided by this: heads of an attention
  /// Lays out the operands and returns the call that is timed.
  std::function<CellCall(Operators&, Pools&)> prepare;
};

/// The axes of the GEMM and attention grids.
struct GridAxes {
  std::vector<double> x, y, z;
};
/// `key` as in OperatorTimes: forwards also have the few rows of decoding.
GridAxes gemm_axes(std::string_view key);
/// Likewise: "cached.<dtype>" has one query of every head.
GridAxes attention_axes(std::string_view key);
GridAxes fp8_gemm_axes();
/// Axes of operators that start anew with every row or head: elements, and elements of one row.
GridAxes by_row_axes(const std::string& key);
/// The key of FP8 products, with axes of their own.
constexpr const char* kFp8Products = "forward.fp8";

/// Operations of the largest measured product or attention, by storage type: a slow machine measures fewer
/// sizes. Larger calls are extrapolated from measured ones (assemble.hpp).
struct CellLimits {
  static constexpr double kMost = 2.5e9;  // FLOPs
  double fp32 = kMost;
  double bf16 = kMost;
  double of(DType storage) const { return storage == DType::fp32 ? fp32 : bf16; }
};
/// The limits of a machine by the rate of its products: calls of at most kLongestCall.
CellLimits limits_for(FlopsPerSecond fp32, FlopsPerSecond bf16);
constexpr Seconds kLongestCall{15e-3};

/// Cells whose operands fit the working set and the time that calibration has; the holes are filled from
/// their neighbours (assemble.hpp).
std::vector<Cell> gemm_cells(DType storage, const CellLimits& limits);
std::vector<Cell> attention_cells(DType storage, const CellLimits& limits);
std::vector<Cell> memory_bound_cells(DType storage);
std::vector<Cell> distillation_cells(DType storage);
std::vector<Cell> by_row_cells(DType storage);
/// Cells of FP8 linear layers, with this storage type; none for the smallest working set.
std::vector<Cell> fp8_cells(DType storage);
/// A few products at working sets from the smallest of the tables to the largest.
std::vector<Cell> level_cells(DType storage);
/// All of them, of fp32 and then of bf16: cells go by their place in this list.
std::vector<Cell> all_cells(const CellLimits& limits = {});

}  // namespace plumbline::calibration
