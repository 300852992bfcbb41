// Cells of FP8 linear layers: quantizing the output of the operator before, transposing, and products, all
// three passes of which have one form.
#include <fmt/format.h>

#include <algorithm>

#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {
namespace {

constexpr std::int64_t kColumns = 512;  // of the gradient stream
constexpr std::int64_t kTiny = 8;       // elements of scales and largest values, apart from everything else

Matrix ones(Pools& pools) {
  const Matrix matrix = pools.scratch(kTiny);
  std::fill_n(matrix.as<float>(), kTiny, 1.0F);
  return matrix;
}

Cell product_cell(DType storage, const std::array<double, 3>& at, std::size_t set) {
  const auto m = static_cast<std::int64_t>(at[0]);
  const auto n = static_cast<std::int64_t>(at[1]);
  const auto k = static_cast<std::int64_t>(at[2]);
  Cell cell;
  cell.table = Table::gemm;
  cell.key = kFp8Products;
  cell.at = at;
  cell.working_set = set;
  cell.storage = storage;
  cell.prepare = [=](Operators& op, Pools& pools) -> CellCall {
    pools.begin(kWorkingSets[set], {n * k + size_of(storage) * m * n});
    Gemm gemm;
    gemm.a = pools.fresh_quantized(m, k);
    gemm.b_transposed = true;
    gemm.a_inverse_scale = gemm.b_inverse_scale = ones(pools).columns(0, 1);
    return [&op, gemm, b = pools.weights_quantized(n, k), c = pools.output(m, n)](std::int64_t call) mutable {
      gemm.b = b.at(call);
      gemm.c = c.at(call);
      op.gemm(gemm);
    };
  };
  return cell;
}

using Make = CellCall (*)(Operators&, Pools&, std::int64_t rows, std::int64_t cols);

CellCall quantize(Operators& op, Pools& pools, std::int64_t rows, std::int64_t cols) {
  const Matrix x = pools.fresh(rows, cols);
  const Matrix scales = ones(pools).columns(0, 2).reshaped(2, 1);
  const Matrix amax = ones(pools).columns(0, 1);
  return [=, &op, y = pools.output_quantized(rows, cols)](std::int64_t call) {
    op.fp8_quantize(x, scales, amax, y.at(call));
  };
}
CellCall quantize_transpose(Operators& op, Pools& pools, std::int64_t rows, std::int64_t cols) {
  const Matrix x = pools.fresh(rows, cols);
  const Matrix scales = ones(pools).columns(0, 2).reshaped(2, 1);
  const Matrix amax = ones(pools).columns(0, 1);
  return [=, &op, both = pools.output_quantized(2 * rows, cols)](std::int64_t call) {
    const Matrix to = both.at(call);
    op.fp8_quantize_transpose(x, scales, amax, to.row_range(0, rows),
                              to.row_range(rows, rows).reshaped(cols, rows));
  };
}
CellCall find_largest(Operators& op, Pools& pools, std::int64_t rows, std::int64_t cols) {
  const Matrix x = pools.fresh(rows, cols);
  const Matrix amax = ones(pools).columns(0, 1);
  return [=, &op](std::int64_t) { op.fp8_amax(x, amax); };
}
CellCall transpose(Operators& op, Pools& pools, std::int64_t rows, std::int64_t cols) {
  const Matrix x = pools.fresh_quantized(rows, cols);
  return [=, &op, y = pools.output_quantized(cols, rows)](std::int64_t call) {
    op.fp8_transpose(x, y.at(call));
  };
}

/// One cell per size and working set. `rotating`: bytes per element that rotate.
void add(std::vector<Cell>& cells, DType storage, const std::string& key, std::int64_t rotating, Make make) {
  for (const int power : {12, 15, 18, 21}) {
    const std::int64_t elements = std::int64_t{1} << power;
    for (std::size_t set = 1; set < kWorkingSets.size(); ++set) {
      Cell cell;
      cell.table = Table::memory_bound;
      cell.key = key;
      cell.at = {static_cast<double>(elements), 1, 1};
      cell.working_set = set;
      cell.storage = storage;
      cell.prepare = [=](Operators& op, Pools& pools) {
        pools.begin(kWorkingSets[set], {std::max<std::int64_t>(1, rotating) * elements});
        return make(op, pools, elements / kColumns, kColumns);
      };
      cells.push_back(std::move(cell));
    }
  }
}

}  // namespace

GridAxes fp8_gemm_axes() {
  return {{16, 64, 256, 1024}, {16, 64, 256, 1024}, {16, 64, 256, 1024}};
}

std::vector<Cell> fp8_cells(DType storage) {
  std::vector<Cell> cells;
  add(cells, storage, fmt::format("fp8_quantize.{}", name_of(storage)), 1, quantize);
  add(cells, storage, fmt::format("fp8_quantize_transpose.{}", name_of(storage)), 2, quantize_transpose);
  add(cells, storage, fmt::format("fp8_amax.{}", name_of(storage)), 0, find_largest);
  // The rest has FP8 operands for every storage type: measured once, with the usual one.
  if (storage != DType::bf16) return cells;
  add(cells, storage, "fp8_transpose.fp8", 1, transpose);
  const GridAxes axes = fp8_gemm_axes();
  for (const double m : axes.x) {
    for (const double n : axes.y) {
      for (const double k : axes.z) {
        for (std::size_t set = 1; set < kWorkingSets.size(); ++set) {
          cells.push_back(product_cell(storage, {m, n, k}, set));
        }
      }
    }
  }
  return cells;
}

}  // namespace plumbline::calibration
