// Cells that show which working sets are in which cache. They are the same few memory-bound products, with
// more and more data between two uses of an operand.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/measure/calibrate/cells/cells.hpp"

namespace plumbline::calibration {
namespace {

constexpr std::int64_t kTokens = 16;
constexpr std::int64_t kWidth = 256;
constexpr std::int64_t kWorkingMiB[] = {1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 32, 48, 96, 192};

/// Calls go through the copies from the first on, which were touched before all others.
CellCall prepare_level(Operators& op, Pools& pools, bool gradient, Bytes working_set) {
  const std::int64_t e = size_of(pools.storage());
  const std::int64_t rotating = gradient ? 4 * kWidth * kWidth : e * kWidth * kWidth;
  pools.begin(working_set, {rotating + e * kTokens * kWidth});
  Gemm gemm;
  gemm.a = pools.fresh(kTokens, kWidth);
  Rotation b;
  Rotation c;
  if (gradient) {
    gemm.a_transposed = gemm.accumulate = true;
    b = pools.saved(kTokens, kWidth);
    c = pools.updated_fp32(kWidth, kWidth);
  } else {
    gemm.b_transposed = true;
    b = pools.weights(kWidth, kWidth);
    c = pools.output(kTokens, kWidth);
  }
  return [&op, gemm, b, c, next = std::int64_t{0}](std::int64_t) mutable {
    gemm.b = b.at(next);
    gemm.c = c.at(next++);
    op.gemm(gemm);
  };
}

}  // namespace

std::vector<Cell> level_cells(DType storage) {
  std::vector<Cell> cells;
  for (const bool gradient : {false, true}) {
    for (const std::int64_t mib : kWorkingMiB) {
      const Bytes working_set = kMiB * mib;
      Cell cell;
      cell.table = Table::level;
      cell.key = fmt::format("{}.{}", gradient ? "weight_gradient" : "forward", name_of(storage));
      cell.at = {static_cast<double>(working_set.value), 1, 1};
      const auto above = std::upper_bound(kWorkingSets.begin(), kWorkingSets.end(), working_set);
      cell.working_set = static_cast<std::size_t>(above - kWorkingSets.begin()) - 1;
      cell.storage = storage;
      cell.prepare = [=](Operators& op, Pools& pools) {
        return prepare_level(op, pools, gradient, working_set);
      };
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

}  // namespace plumbline::calibration
