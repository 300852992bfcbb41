// Times of cells become tables and cache levels.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "analysis/time/operator_time.hpp"
#include "bench/measure/calibrate/cells/cells.hpp"
#include "bench/measure/calibrate/figures/assemble.hpp"
#include "bench/measure/calibrate/figures/levels.hpp"
#include "bench/measure/calibrate/figures/unseen.hpp"
#include "core/base/error.hpp"

namespace plumbline::calibration::assemble_test {
namespace {

/// Seconds of every cell.
std::vector<double> seconds_of(const std::vector<Cell>& cells,
                               const std::function<double(const Cell&)>& time) {
  std::vector<double> seconds;
  for (const Cell& cell : cells) seconds.push_back(time(cell));
  return seconds;
}

TEST(Assemble, HolesTakeTheirNeighboursRate) {
  // Every measured product runs at 1 GFLOP/s, twice that in the private cache.
  const std::vector<Cell> cells = gemm_cells(DType::fp32, {});
  const auto tables =
      assemble(cells, seconds_of(cells, [](const Cell& cell) {
                 return 2 * cell.at[0] * cell.at[1] * cell.at[2] / (cell.working_set == 0 ? 2e9 : 1e9);
               }));
  ASSERT_EQ(tables.size(), kWorkingSets.size());
  for (const char* key : {"forward.fp32", "input_gradient.fp32", "weight_gradient.fp32"}) {
    const Grid& memory = tables[2].gemm.at(key);
    const Grid& cache = tables[0].gemm.at(key);
    const GridAxes axes = gemm_axes(key);
    std::size_t i = 0;
    for (const double x : axes.x) {
      for (const double y : axes.y) {
        for (const double z : axes.z) {
          EXPECT_NEAR(memory.seconds[i] / (2 * x * y * z / 1e9), 1, 1e-9) << key << x << " " << y << " " << z;
          EXPECT_FALSE(std::isnan(cache.seconds[i]));
          ++i;
        }
      }
    }
    EXPECT_NEAR(cache.at(64, 64, 64).value, 2 * 64.0 * 64 * 64 / 2e9, 1e-12);
    EXPECT_NEAR(cache.at(1024, 4096, 4096).value, memory.at(1024, 4096, 4096).value, 1e-12);
  }
  EXPECT_NEAR(best_gemm_rate(tables, DType::fp32).value, 2e9, 1);
  EXPECT_EQ(best_gemm_rate(tables, DType::bf16).value, 0);
}

TEST(Assemble, DroppingAttentionFollowsAttention) {
  // Dropping takes half as long again where it is measured, which is not everywhere.
  const std::vector<Cell> cells = attention_cells(DType::bf16, {});
  std::vector<double> seconds;
  std::size_t dropping = 0;
  for (const Cell& cell : cells) {
    const bool drops = cell.key.find("_dropout") != std::string::npos;
    dropping += drops ? 1 : 0;
    seconds.push_back(1e-9 * cell.at[0] * cell.at[0] * cell.at[1] * (1 + cell.at[2]) * (drops ? 1.5 : 1));
  }
  EXPECT_GT(dropping, 0U);
  EXPECT_LT(dropping, cells.size() / 2);
  const auto tables = assemble(cells, seconds);
  for (const std::string pass : {"forward", "backward"}) {
    const Grid& plain = tables[1].attention.at(pass + ".bf16");
    const Grid& drops = tables[1].attention.at(pass + "_dropout.bf16");
    ASSERT_EQ(drops.seconds.size(), plain.seconds.size());
    for (std::size_t i = 0; i < plain.seconds.size(); ++i) {
      EXPECT_NEAR(drops.seconds[i] / plain.seconds[i], 1.5, 1e-9) << pass << " " << i;
    }
  }
}

// 1 ms per 2^30 products in memory, half of that in the shared cache: a grid of its own, nowhere a hole.
TEST(Assemble, EightBitProductsHaveAGridOfTheirOwn) {
  const std::vector<Cell> cells = fp8_cells(DType::bf16);
  const auto tables =
      assemble(cells, seconds_of(cells, [](const Cell& cell) {
                 return cell.at[0] * cell.at[1] * cell.at[2] * 1e-12 * static_cast<double>(cell.working_set);
               }));
  EXPECT_EQ(tables[0].gemm.count(kFp8Products), 0U);
  for (const std::size_t set : {1U, 2U}) {
    const Grid& grid = tables[set].gemm.at(kFp8Products);
    EXPECT_NEAR(grid.at(256, 1024, 64).value, 256.0 * 1024 * 64 * 1e-12 * set, 1e-15);
    for (const double time : grid.seconds) EXPECT_FALSE(std::isnan(time));
    EXPECT_EQ(tables[set].memory_bound.count("fp8_transpose.fp8"), 1U);
    EXPECT_EQ(tables[set].memory_bound.count("fp8_quantize_transpose.bf16"), 1U);
  }
  EXPECT_EQ(best_gemm_rate(tables, DType::bf16).value, 0) << "the peak is the storage type's";
  EXPECT_EQ(fp8_cells(DType::fp32).size(), 3U * 4 * 2)
      << "quantizing, also with the transpose, and largest values only";
}

// The rates of unmeasured widest products change with either width alone.
TEST(Assemble, LargerProductsFollowTheRatesOfTheirWidths) {
  std::vector<Cell> cells = gemm_cells(DType::fp32, {0.6e9, 0.6e9});
  const auto time = [](double rows, double out, double in) {
    return 2 * rows * out * in / (1e9 * std::sqrt(out) / std::cbrt(in));
  };
  const std::vector<OperatorTimes> tables = assemble(
      cells, seconds_of(cells, [&](const Cell& cell) { return time(cell.at[0], cell.at[1], cell.at[2]); }));
  EXPECT_NEAR(tables[2].gemm.at("forward.fp32").at(256, 4096, 1024).value / time(256, 4096, 1024), 1, 1e-9);
  EXPECT_NEAR(tables[1].gemm.at("forward.fp32").at(1024, 4096, 4096).value / time(1024, 4096, 4096), 1, 1e-9);
}

TEST(Assemble, TablesHoldBothTypesAndWhatIsTooSmallToMatter) {
  const std::vector<Cell> cells = all_cells();
  const auto time = [](const Cell& cell) { return 1e-6 * static_cast<double>(cell.working_set + 1); };
  const std::vector<OperatorTimes> tables =
      assemble(cells, seconds_of(cells, time), std::vector<double>(cells.size(), 0.25));
  for (const char* key : {"adam.fp32", "adam.bf16", "dropout_mask.uint8"}) {
    const Curve& curve = tables[1].memory_bound.at(key);
    EXPECT_EQ(curve.sizes.size(), curve.seconds.size());
    EXPECT_EQ(curve.sizes.size(), curve.spread.size());
    EXPECT_EQ(curve.sizes.front(), 64);
    EXPECT_TRUE(std::is_sorted(curve.sizes.begin(), curve.sizes.end()));
    // In memory a few elements are as from the shared cache.
    const Curve& memory = tables[2].memory_bound.at(key);
    EXPECT_EQ(memory.sizes.size(), curve.sizes.size());
    EXPECT_DOUBLE_EQ(memory.at(64).value, 2e-6);
    EXPECT_DOUBLE_EQ(memory.at(1 << 21).value, 3e-6);
  }
  const Grid& products = tables[2].gemm.at("forward.bf16");
  EXPECT_DOUBLE_EQ(products.at(16, 16, 16).value, 2e-6);
  EXPECT_DOUBLE_EQ(products.at(2, 3, 4).value, 2e-6) << "no product is cheaper than the smallest measured";
  EXPECT_DOUBLE_EQ(products.at(1024, 1024, 1024).value, 3e-6);
  ASSERT_EQ(products.spread.size(), products.seconds.size());
  EXPECT_EQ(products.spread.front(), 0) << "it was not measured there";
}

// A norm or a rotation starts anew with every row or head: many short rows take longer than few long ones.
TEST(Assemble, RowsAreAnAxisOfTheirOwn) {
  std::vector<Cell> cells = all_cells();
  const std::vector<OperatorTimes> tables =
      assemble(cells, seconds_of(cells, [](const Cell& cell) {
                 return cell.table == Table::by_row ? 1e-9 * cell.at[0] / cell.at[1] : 1e-6;
               }));
  for (const OperatorTimes& times : tables) {
    for (const char* key : {"rmsnorm_forward.fp32", "layernorm_backward.bf16", "rope.bf16"}) {
      const Grid& grid = times.by_row.at(key);
      EXPECT_EQ(times.memory_bound.count(key), 0U);
      for (const double time : grid.seconds) EXPECT_FALSE(std::isnan(time)) << key;
      EXPECT_NEAR(grid.at(1 << 15, 16, 1).value, 1e-9 * (1 << 11), 1e-15) << key;
    }
    HardwareProfile profile;
    profile.alone = {times};
    OperatorCall call{.work = StreamCall{.name = "rope", .elements = 1 << 15}};
    const auto time_with_head = [&](std::int64_t head) {
      call.get<StreamCall>().width = head;
      return time_of(call, profile, {}).value;
    };
    EXPECT_NEAR(time_with_head(16), 1e-9 * (1 << 11), 1e-12);
    EXPECT_NEAR(time_with_head(64), 1e-9 * (1 << 9), 1e-12);
    EXPECT_DOUBLE_EQ(time_with_head(512), time_with_head(64)) << "longer heads take no longer per element";
    EXPECT_DOUBLE_EQ(time_with_head(0), time_with_head(64))
        << "a call that does not say how long its heads are";
  }
}

TEST(Unseen, FiguresAreThoseOfTheNearestNeighbour) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Cell> cells = all_cells();
  std::vector<double> seconds = seconds_of(
      cells, [](const Cell& cell) { return cell.table == Table::memory_bound ? 1e-9 * cell.at[0] : 1; });
  const std::vector<double> before = seconds;
  const auto lose = [&](const char* key, double size, std::size_t set) {
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].table == Table::memory_bound && cells[i].key == key && cells[i].at[0] == size &&
          cells[i].working_set == set)
        seconds[i] = kNone;
    }
  };
  EXPECT_EQ(fill_unseen(cells, seconds), 0U);
  lose("add.fp32", 1 << 18, 1);
  lose("adam.bf16", 64, 0);
  EXPECT_EQ(fill_unseen(cells, seconds), 2U);
  for (std::size_t i = 0; i < cells.size(); ++i) EXPECT_DOUBLE_EQ(seconds[i], before[i]) << cells[i].key;
  seconds.assign(cells.size(), kNone);
  EXPECT_THROW(fill_unseen(cells, seconds), Error);
}

// Products take 1 ms in the private cache, 2 ms in the shared one and 4 ms in memory. Memory begins at 12
// MiB; half of all is in memory at 16.
TEST(Levels, SayWhichWorkingSetsAreInWhichCache) {
  std::vector<Cell> cells = level_cells(DType::fp32);
  const auto add = level_cells(DType::bf16);
  cells.insert(cells.end(), add.begin(), add.end());
  const auto seconds_at = [](double mib) {
    return mib <= 2 ? 1e-3 : mib < 12 ? 2e-3 : mib <= 14 ? 2.5e-3 : mib == 16 ? 3e-3 : 4e-3;
  };
  const CacheLevels levels = levels_of(cells, seconds_of(cells, [&](const Cell& cell) {
                                         const bool same_anywhere =
                                             cell.key == "forward.bf16";  // it does not show the level
                                         return same_anywhere ? 1e-3 : seconds_at(cell.at[0] / (1 << 20));
                                       }));
  ASSERT_FALSE(levels.empty());
  EXPECT_TRUE(std::is_sorted(levels.level.begin(), levels.level.end()));
  const auto at = [&](double mib) { return levels.at(mib * (1 << 20)); };
  for (const auto& [mib, level] :
       {std::pair{1.0, 0.0}, {2, 0}, {4, 1}, {8, 1}, {12, 1.25}, {16, 1.5}, {192, 2}, {10'000, 2}})
    EXPECT_DOUBLE_EQ(at(mib), level) << mib;
  EXPECT_TRUE(
      levels_of(gemm_cells(DType::fp32, {}), std::vector<double>(gemm_cells(DType::fp32, {}).size(), 1))
          .empty());
}

}  // namespace
}  // namespace plumbline::calibration::assemble_test
