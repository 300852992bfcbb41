// The parts of calibration that need no measuring: which cells there are, where their operands lie, how times
// become tables.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "analysis/work/operator_list.hpp"
#include "bench/calibrate/assemble.hpp"
#include "bench/calibrate/cells.hpp"
#include "bench/calibrate/pools.hpp"
#include "core/base/error.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration {
namespace {

StageShape shape_of(DType type, bool gpt2) {
  StageShape s;
  s.tokens = s.seq = 256;
  s.batch = 1;
  s.hidden = 128;
  s.head_dim = 64;
  s.heads = s.kv_heads = 2;
  s.q = s.k = 128;
  s.ffn = 256;
  s.fc1 = gpt2 ? 256 : 512;
  s.vocab = 1024;
  s.positions = gpt2 ? 256 : 0;
  s.layers = 2;
  s.first = s.last = s.single = true;
  s.rotary = s.swiglu = !gpt2;
  s.layer_norm = s.linear_bias = s.qkv_bias = gpt2;
  s.hidden_dropout = s.attention_dropout = gpt2;
  s.tensor = 2;
  s.type = type;
  s.grad_type = DType::fp32;
  return s;
}

TEST(Cells, CoverEveryOperatorOfATrainingStep) {
  std::set<std::string> known;
  for (const DType type : {DType::fp32, DType::bf16}) {
    for (const auto& cells :
         {gemm_cells(type), attention_cells(type), memory_bound_cells(type), fp8_cells(type)}) {
      for (const Cell& cell : cells) known.insert(cell.key);
    }
  }
  for (const DType storage : {DType::fp32, DType::bf16}) {
    for (const bool gpt2 : {false, true}) {
      StageShape shape = shape_of(storage, gpt2);
      shape.fp8 = gpt2;
      shape.fp8_tensorwise = gpt2;
      std::vector<OperatorCall> calls = forward_calls(shape);
      for (const auto& more :
           {backward_calls(shape), clear_calls(shape), update_calls(shape, Optimizer::adam, true),
            update_calls(shape, Optimizer::sgd, true), fp8_weight_calls(shape)}) {
        calls.insert(calls.end(), more.begin(), more.end());
      }
      for (const OperatorCall& call : calls) {
        if (call.kind != CallKind::gemm && call.kind != CallKind::memory_bound) continue;
        if (call.name == std::string("fp8_scales")) continue;  // a few numbers
        const std::string_view type = is_fp8(call.type) ? "fp8" : name_of(call.type);
        const std::string name = fmt::format(
            "{}.{}", call.kind == CallKind::gemm ? plumbline::name_of(call.pass) : call.name, type);
        EXPECT_EQ(known.count(call.fp8 ? kFp8Products : name), 1U) << call.label;
      }
    }
  }
}

TEST(Cells, EveryOneFindsItsOperands) {
  const auto operators = make_cpu_operators();
  for (const DType type : {DType::fp32, DType::bf16}) {
    Pools pools(type);
    for (const auto& cells :
         {gemm_cells(type), attention_cells(type), memory_bound_cells(type), fp8_cells(type)}) {
      for (const Cell& cell : cells) {
        EXPECT_NO_THROW(cell.prepare(*operators, pools))
            << cell.key << " " << cell.at[0] << " working set " << cell.working_set;
      }
    }
  }
}

TEST(Pools, RotationsTouchTheWorkingSetAndNothingTwice) {
  Pools pools(DType::bf16);
  pools.begin({10'000}, {1000});
  const Rotation weights = pools.saved(10, 50);
  const Rotation other = pools.saved(10, 50);
  std::set<const void*> seen;
  for (std::int64_t call = 0; call < 10; ++call) seen.insert(weights.at(call).data);
  for (std::int64_t call = 0; call < 10; ++call) seen.insert(other.at(call).data);
  EXPECT_EQ(seen.size(), 20U);
  EXPECT_EQ(weights.at(10).data, weights.at(0).data);
  EXPECT_EQ(weights.at(3).dtype, DType::bf16);
  // A single operand beyond the working set: one copy.
  pools.begin({10'000}, {1'000'000});
  const Rotation large = pools.updated_fp32(500, 500);
  EXPECT_EQ(large.at(0).data, large.at(1).data);
  const Matrix ids = pools.tokens(100, 7);
  for (std::int64_t i = 0; i < 100; ++i) EXPECT_LT(ids.as<std::int32_t>()[i], 7);
  EXPECT_THROW(pools.scratch(Pools::kSize.value), Error);
}

TEST(Assemble, HolesTakeTheirNeighboursRate) {
  // Every measured product runs at 1 GFLOP/s, twice that in the private cache.
  const std::vector<Cell> cells = gemm_cells(DType::fp32);
  std::vector<double> seconds;
  for (const Cell& cell : cells) {
    const double flops = 2 * cell.at[0] * cell.at[1] * cell.at[2];
    seconds.push_back(flops / (cell.working_set == 0 ? 2e9 : 1e9));
  }
  const auto tables = assemble(cells, seconds);
  ASSERT_EQ(tables.size(), kWorkingSets.size());
  const GridAxes axes = gemm_axes();
  for (const char* key : {"forward.fp32", "input_gradient.fp32", "weight_gradient.fp32"}) {
    const Grid& memory = tables[2].gemm.at(key);
    const Grid& cache = tables[0].gemm.at(key);
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
  const std::vector<Cell> cells = attention_cells(DType::bf16);
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
  std::vector<double> seconds;
  for (const Cell& cell : cells) {
    seconds.push_back(cell.at[0] * cell.at[1] * cell.at[2] * 1e-12 * static_cast<double>(cell.working_set));
  }
  const auto tables = assemble(cells, seconds);
  EXPECT_EQ(tables[0].gemm.count(kFp8Products), 0U);
  for (const std::size_t set : {1U, 2U}) {
    const Grid& grid = tables[set].gemm.at(kFp8Products);
    EXPECT_NEAR(grid.at(256, 1024, 64).value, 256.0 * 1024 * 64 * 1e-12 * set, 1e-15);
    for (const double time : grid.seconds) EXPECT_FALSE(std::isnan(time));
    EXPECT_EQ(tables[set].memory_bound.count("fp8_transpose.fp8"), 1U);
  }
  EXPECT_EQ(best_gemm_rate(tables, DType::bf16).value, 0) << "the peak is the storage type's";
  EXPECT_EQ(fp8_cells(DType::fp32).size(), 2U * 4 * 2) << "quantizing and largest values only";
}

TEST(Assemble, MergeKeepsBothTypes) {
  std::vector<OperatorTimes> tables;
  for (const DType type : {DType::fp32, DType::bf16}) {
    const std::vector<Cell> cells = memory_bound_cells(type);
    merge(tables, assemble(cells, std::vector<double>(cells.size(), 1e-6)));
  }
  EXPECT_EQ(tables[1].memory_bound.count("adam.fp32"), 1U);
  EXPECT_EQ(tables[1].memory_bound.count("adam.bf16"), 1U);
  EXPECT_EQ(tables[1].memory_bound.count("dropout_mask.uint8"), 1U);
  const Curve& curve = tables[1].memory_bound.at("adam.bf16");
  EXPECT_EQ(curve.sizes.size(), curve.seconds.size());
  EXPECT_TRUE(std::is_sorted(curve.sizes.begin(), curve.sizes.end()));
}

}  // namespace
}  // namespace plumbline::calibration
