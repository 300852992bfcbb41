// The parts of calibration that need no measuring: which cells there are, where their operands lie, how times
// become tables.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "analysis/time/operator_time.hpp"
#include "analysis/work/operator_list.hpp"
#include "bench/measure/calibrate/cell_timer.hpp"
#include "bench/measure/calibrate/cells/cells.hpp"
#include "bench/measure/calibrate/cells/pools.hpp"
#include "bench/measure/calibrate/figures/assemble.hpp"
#include "bench/measure/calibrate/figures/levels.hpp"
#include "bench/measure/calibrate/figures/looks.hpp"
#include "bench/measure/calibrate/figures/unseen.hpp"
#include "bench/measure/calibrate/host_time.hpp"
#include "bench/measure/calibrate/noise.hpp"
#include "bench/measure/calibrate/probe.hpp"
#include "core/base/error.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration {
namespace {

StageShape shape_of(DType type, bool gpt2) {
  StageShape s;
  s.stream.tokens = s.stream.seq = 256;
  s.stream.batch = 1;
  s.stream.hidden = 128;
  s.attention.head_dim = 64;
  s.attention.heads = s.attention.kv_heads = 2;
  s.attention.q = s.attention.k = 128;
  s.mlp.ffn = 256;
  s.mlp.fc1 = gpt2 ? 256 : 512;
  s.ends.vocab = 1024;
  s.ends.positions = gpt2 ? 256 : 0;
  s.layers = 2;
  s.place.first = s.place.last = s.place.single = true;
  s.attention.rotary = s.mlp.swiglu = !gpt2;
  s.block.layer_norm = s.block.linear_bias = s.attention.qkv_bias = gpt2;
  s.block.dropout = s.attention.dropout = gpt2;
  s.attention.qk_norm = s.ends.scaled_embedding = !gpt2;
  s.sharding.tensor = 2;
  s.numerics.type = type;
  s.numerics.grad_type = DType::fp32;
  return s;
}

TEST(Cells, CoverEveryOperatorOfATrainingStep) {
  std::set<std::string> known;
  for (const Cell& cell : all_cells()) known.insert(cell.key);
  for (const DType storage : {DType::fp32, DType::bf16}) {
    for (const bool gpt2 : {false, true}) {
      StageShape shape = shape_of(storage, gpt2);
      shape.numerics.fp8 = gpt2;
      shape.numerics.fp8_tensorwise = gpt2;
      std::vector<OperatorCall> calls = forward_calls(shape);
      for (const auto& more : {backward_calls(shape), clear_calls(shape), norm_calls(shape),
                               update_calls(shape, Optimizer::adam), update_calls(shape, Optimizer::sgd),
                               fp8_weight_calls(shape)}) {
        calls.insert(calls.end(), more.begin(), more.end());
      }
      for (const OperatorCall& call : calls) {
        const auto* gemm = call.as<GemmCall>();
        if (gemm == nullptr && call.as<StreamCall>() == nullptr) continue;
        if (call.name() == "fp8_scales") continue;  // a few numbers
        const std::string_view type = is_fp8(call.type) ? "fp8" : name_of(call.type);
        const std::string name =
            fmt::format("{}.{}", gemm != nullptr ? plumbline::name_of(gemm->pass) : call.name(), type);
        EXPECT_EQ(known.count(gemm != nullptr && gemm->fp8 ? kFp8Products : name), 1U) << call.label;
      }
    }
  }
}

TEST(Cells, EveryOneFindsItsOperands) {
  const auto operators = make_cpu_operators();
  Pools pools;
  for (const Cell& cell : all_cells()) {
    pools.set_storage(cell.storage);
    EXPECT_NO_THROW(cell.prepare(*operators, pools))
        << cell.key << " " << cell.at[0] << " working set " << cell.working_set;
  }
}

TEST(Pools, RotationsTouchTheWorkingSetAndNothingTwice) {
  Pools pools;
  pools.set_storage(DType::bf16);
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
  EXPECT_THROW(pools.scratch(PoolSizes().large.value), Error);
}

// Numbers of another type would be impossible in a training: infinite, or so small that they take longer.
TEST(Pools, InputsAreNumbersInEitherType) {
  Pools pools;
  for (const DType type : {DType::fp32, DType::bf16, DType::fp32}) {
    pools.set_storage(type);
    pools.begin(kMiB, {1000});
    const Matrix input = pools.saved(1, 4096).at(0);
    const Matrix output = pools.output(1, 4096).at(0);
    double squares = 0;
    for (std::int64_t i = 0; i < input.cols; ++i) {
      const std::uint32_t bits = type == DType::fp32
                                     ? input.as<std::uint32_t>()[i]
                                     : static_cast<std::uint32_t>(input.as<std::uint16_t>()[i]) << 16;
      const auto value = std::bit_cast<float>(bits);
      squares += static_cast<double>(value) * value;
      if (type == DType::fp32) {
        EXPECT_EQ(output.as<float>()[i], 0) << "what was written in another type is gone";
      } else {
        output.as<std::uint16_t>()[i] = 0x7F80;  // infinite
      }
    }
    EXPECT_NEAR(squares / 4096, 1, 0.2) << name_of(type);
  }
}

TEST(Assemble, HolesTakeTheirNeighboursRate) {
  // Every measured product runs at 1 GFLOP/s, twice that in the private cache.
  const std::vector<Cell> cells = gemm_cells(DType::fp32, {});
  std::vector<double> seconds;
  for (const Cell& cell : cells) {
    const double flops = 2 * cell.at[0] * cell.at[1] * cell.at[2];
    seconds.push_back(flops / (cell.working_set == 0 ? 2e9 : 1e9));
  }
  const auto tables = assemble(cells, seconds);
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

// Products take 1 ms in the private cache, 2 ms in the shared one and 4 ms in memory. Memory begins at 12
// MiB; half of all is in memory at 16.
TEST(Levels, SayWhichWorkingSetsAreInWhichCache) {
  std::vector<Cell> cells = level_cells(DType::fp32);
  const auto add = level_cells(DType::bf16);
  cells.insert(cells.end(), add.begin(), add.end());
  const auto seconds_at = [](double mib) {
    return mib <= 2 ? 1e-3 : mib < 12 ? 2e-3 : mib <= 14 ? 2.5e-3 : mib == 16 ? 3e-3 : 4e-3;
  };
  std::vector<double> seconds;
  for (const Cell& cell : cells) {
    const bool same_anywhere = cell.key == "forward.bf16";  // it does not show the level
    seconds.push_back(same_anywhere ? 1e-3 : seconds_at(cell.at[0] / (1 << 20)));
  }
  const CacheLevels levels = levels_of(cells, seconds);
  ASSERT_FALSE(levels.empty());
  EXPECT_TRUE(std::is_sorted(levels.level.begin(), levels.level.end()));
  const auto at = [&](double mib) { return levels.at(mib * (1 << 20)); };
  EXPECT_DOUBLE_EQ(at(1), 0);
  EXPECT_DOUBLE_EQ(at(2), 0);
  EXPECT_DOUBLE_EQ(at(4), 1);
  EXPECT_DOUBLE_EQ(at(8), 1);
  EXPECT_DOUBLE_EQ(at(12), 1.25);
  EXPECT_DOUBLE_EQ(at(16), 1.5);
  EXPECT_DOUBLE_EQ(at(192), 2);
  EXPECT_DOUBLE_EQ(at(10'000), 2);
  EXPECT_TRUE(
      levels_of(gemm_cells(DType::fp32, {}), std::vector<double>(gemm_cells(DType::fp32, {}).size(), 1))
          .empty());
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
    EXPECT_EQ(tables[set].memory_bound.count("fp8_quantize_transpose.bf16"), 1U);
  }
  EXPECT_EQ(best_gemm_rate(tables, DType::bf16).value, 0) << "the peak is the storage type's";
  EXPECT_EQ(fp8_cells(DType::fp32).size(), 3U * 4 * 2)
      << "quantizing, also with the transpose, and largest values only";
}

// A slow machine measures fewer products; times follow from the measured ones.
TEST(Cells, LimitsFollowTheSpeedOfProducts) {
  struct Case {
    double rate;       // FLOP/s
    double most_fp32;  // operations of the largest product
  };
  for (const auto& [rate, most] : {Case{1e12, 2.5e9}, Case{80e9, 1.2e9}, Case{10e9, 0.15e9}}) {
    const CellLimits limits = limits_for({rate}, {rate / 2});
    EXPECT_DOUBLE_EQ(limits.fp32, most);
    EXPECT_DOUBLE_EQ(limits.bf16, std::min(2.5e9, rate / 2 * kLongestCall.value));
    const std::vector<Cell> cells = all_cells(limits);
    EXPECT_LE(cells.size(), all_cells().size());
    for (const Cell& cell : cells) {
      if (cell.table != Table::gemm || cell.key == kFp8Products) continue;
      EXPECT_LE(2 * cell.at[0] * cell.at[1] * cell.at[2], limits.of(cell.storage));
    }
    // Operators at 50 GFLOP/s and 1 ns per element in every measurement.
    std::vector<double> seconds;
    for (const Cell& cell : cells) {
      const double product = 2 * cell.at[0] * cell.at[1] * cell.at[2] / 50e9;
      const double attention = cell.at[0] * (cell.at[0] + 1) * cell.at[1] * 1e-9;
      seconds.push_back(cell.table == Table::gemm        ? product
                        : cell.table == Table::attention ? attention
                                                         : cell.at[0] * 1e-9);
    }
    const std::vector<OperatorTimes> tables = assemble(cells, seconds);
    for (const OperatorTimes& table : tables) {
      for (const char* key : {"forward.fp32", "weight_gradient.bf16"})
        EXPECT_NEAR(table.gemm.at(key).at(1024, 4096, 4096).value, 2.0 * 1024 * 4096 * 4096 / 50e9, 1e-9)
            << key;
      EXPECT_NEAR(table.memory_bound.at("cross_entropy_sums.fp32").at(1 << 24).value, (1 << 24) * 1e-9, 1e-9);
    }
    for (const char* key : {"forward.fp32", "backward_dropout.bf16"})
      EXPECT_NEAR(tables[1].attention.at(key).at(1024, 128, 4).value, 1024.0 * 1025 * 128e-9, 1e-6) << key;
  }
}

// The rates of unmeasured widest products change with either width alone.
TEST(Assemble, LargerProductsFollowTheRatesOfTheirWidths) {
  std::vector<Cell> cells = gemm_cells(DType::fp32, {0.6e9, 0.6e9});
  const auto time = [](double rows, double out, double in) {
    return 2 * rows * out * in / (1e9 * std::sqrt(out) / std::cbrt(in));
  };
  std::vector<double> seconds;
  for (const Cell& cell : cells) seconds.push_back(time(cell.at[0], cell.at[1], cell.at[2]));
  const std::vector<OperatorTimes> tables = assemble(cells, seconds);
  EXPECT_NEAR(tables[2].gemm.at("forward.fp32").at(256, 4096, 1024).value / time(256, 4096, 1024), 1, 1e-9);
  EXPECT_NEAR(tables[1].gemm.at("forward.fp32").at(1024, 4096, 4096).value / time(1024, 4096, 4096), 1, 1e-9);
}

TEST(Unseen, FiguresAreThoseOfTheNearestNeighbour) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Cell> cells = all_cells();
  std::vector<double> seconds;
  for (const Cell& cell : cells) seconds.push_back(cell.table == Table::memory_bound ? 1e-9 * cell.at[0] : 1);
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

TEST(Assemble, TablesHoldBothTypesAndWhatIsTooSmallToMatter) {
  const std::vector<Cell> cells = all_cells();
  std::vector<double> seconds, spread;
  for (const Cell& cell : cells) {
    seconds.push_back(1e-6 * static_cast<double>(cell.working_set + 1));
    spread.push_back(0.25);
  }
  const std::vector<OperatorTimes> tables = assemble(cells, seconds, spread);
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
  std::vector<double> seconds;
  for (const Cell& cell : cells)
    seconds.push_back(cell.table == Table::by_row ? 1e-9 * cell.at[0] / cell.at[1] : 1e-6);
  const std::vector<OperatorTimes> tables = assemble(cells, seconds);
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

TEST(Looks, AFigureIsALowQuantileOfThem) {
  EXPECT_DOUBLE_EQ(figure_of({5}).seconds, 5);
  EXPECT_DOUBLE_EQ(figure_of({5}).spread, 0);
  EXPECT_DOUBLE_EQ(figure_of({6, 5}).seconds, 5);
  EXPECT_DOUBLE_EQ(figure_of({6, 5}).spread, 0.2);
  // One too quick and two disturbed samples of five decide nothing.
  EXPECT_DOUBLE_EQ(figure_of({9, 4, 5, 5, 8}).seconds, 5);
  EXPECT_NEAR(figure_of({9, 4, 5, 5, 5.1}).spread, 0.02, 1e-9);
  EXPECT_THROW(figure_of({}), Error);
}

TEST(Looks, WhatWasSeenOnceOrFarApartIsNotSettled) {
  EXPECT_TRUE(is_unsettled({{5}, {}})) << "one look";
  EXPECT_FALSE(is_unsettled({{5, 5.1}, {}})) << "one processor: nothing is busy";
  EXPECT_TRUE(is_unsettled({{5, 5.1}, {7, 9}}));
  EXPECT_EQ(count_unsettled({{{5, 5.1}, {7, 9}}, {{5}, {7}}}), 1) << "what was seen once is not apart";
}

TEST(Looks, AClassMovesWithMostOfItsCells) {
  const std::vector<Cell> cells = memory_bound_cells(DType::fp32);
  LooksOfCells looks(cells.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    // In the second round everything takes half as long again, except for a tenth of far outliers.
    looks[i].alone = {1e-6, i % 10 == 0 ? 9e-6 : 1.5e-6};
  }
  EXPECT_NEAR(movement_of(cells, looks).memory, 0.5, 1e-9);
  EXPECT_EQ(movement_of(cells, looks).compute, 0);
}

TEST(Looks, RoundTripAndHostileText) {
  const LooksOfCells looks = {{{1e-6, 2e-6}, {3e-6}}, {{1e-3}, {}}};
  const LooksOfCells again = parse_looks(to_json(looks), "looks", 2);
  EXPECT_EQ(again[0].alone, looks[0].alone);
  EXPECT_EQ(again[0].busy, looks[0].busy);
  EXPECT_TRUE(again[1].busy.empty());
  EXPECT_THROW(parse_looks(to_json(looks), "looks", 3), InputError);
  EXPECT_THROW(parse_looks("{\"looks\":[{\"alone\":[-1],\"busy\":[]}]}", "looks", 1), InputError);
  EXPECT_THROW(parse_looks("[]", "looks", 1), InputError);
}

TEST(CellTimer, TimesACallAndNotWhatIsAround) {
  const auto operators = make_cpu_operators();
  Pools pools({kMiB * 48, kMiB * 16, kMiB * 32, kMiB * 16});
  CellTimer timer(*operators, pools);
  for (const Cell& cell : memory_bound_cells(DType::fp32)) {
    if (cell.key != "fill.fp32" || cell.working_set != 0) continue;
    timer.begin(cell, 0);
    const double seconds = timer.look();
    EXPECT_GT(seconds, 1e-9) << cell.at[0];
    EXPECT_LT(seconds, 20e-3) << cell.at[0];
  }
}

// The cells of a probe are calibration's own, so that a ratio of 1 means the calibrated speed.
TEST(Probe, ItsCellsAreCalibrations) {
  const std::vector<Cell> all = all_cells();
  for (const DType type : {DType::fp32, DType::bf16}) {
    const std::vector<Cell> cells = probe_cells(type);
    EXPECT_EQ(cells.size(), 14U) << name_of(type);
    Pools pools(kProbePools);
    const auto operators = make_cpu_operators();
    std::vector<double> seconds(all.size(), 1e-6);
    for (const Cell& cell : cells) {
      const auto same = std::find_if(all.begin(), all.end(), [&](const Cell& each) {
        return each.table == cell.table && each.key == cell.key && each.at == cell.at &&
               each.working_set == cell.working_set;
      });
      ASSERT_NE(same, all.end()) << cell.key;
      pools.set_storage(cell.storage);
      EXPECT_NO_THROW(cell.prepare(*operators, pools)) << cell.key;
      seconds[static_cast<std::size_t>(same - all.begin())] = 3e-6;
    }
    HardwareProfile profile;
    profile.alone = assemble(all, seconds);
    profile.busy = assemble(all, std::vector<double>(all.size(), 5e-6));
    for (const Cell& cell : cells) {
      EXPECT_NEAR(calibrated_seconds(profile, cell, 0), 3e-6, 1e-12) << cell.key << " " << cell.at[0];
      EXPECT_NEAR(calibrated_seconds(profile, cell, 1), 5e-6, 1e-12) << cell.key;
      EXPECT_NEAR(calibrated_seconds(profile, cell, 0.5), 4e-6, 1e-12) << cell.key;
    }
    EXPECT_FALSE(Probe::possible(profile, type)) << "devices of their own";
    profile.kind = Calibrated{2};
    EXPECT_TRUE(Probe::possible(profile, type));
    EXPECT_FALSE(Probe::possible(HardwareProfile(), type)) << "nothing is measured";
    EXPECT_FALSE(Probe::possible(profile, DType::fp16));
  }
}

// Products take twice as long, other operators three times; waiting for memory takes five times as long.
TEST(Probe, TellsTheSpeedOfMemoryFromThatOfTheProcessor) {
  const std::vector<Cell> all = all_cells();
  const auto calibrated = [](const Cell& cell) { return cell.working_set == 0 ? 1e-6 : 4e-6; };
  std::vector<double> seconds;
  for (const Cell& cell : all) seconds.push_back(calibrated(cell));
  HardwareProfile profile;
  profile.alone = assemble(all, seconds);
  for (const DType type : {DType::fp32, DType::bf16}) {
    const std::vector<Cell> cells = probe_cells(type);
    std::vector<double> now;
    for (const Cell& cell : cells) {
      const bool computes = cell.table == Table::gemm || cell.table == Table::attention;
      const double longer = computes ? 2 : 3;
      const bool from_memory = cell.working_set == 2 || cell.key.starts_with("adam");
      const double cached =
          from_memory ? calibrated_in_caches(profile, cell, 0) : calibrated_seconds(profile, cell, 0);
      now.push_back(cached * longer + (calibrated_seconds(profile, cell, 0) - cached) * 5);
    }
    const OperatorRatios ratios = operator_ratios(profile, cells, now, 0);
    EXPECT_NEAR(ratios.longer.compute, 2, 1e-9) << name_of(type);
    EXPECT_NEAR(ratios.longer.memory, 3, 1e-9) << name_of(type);
    EXPECT_NEAR(ratios.longer.bandwidth, 5, 1e-9) << name_of(type);
    EXPECT_NEAR(ratios.error.compute, 0, 1e-9) << "all cells agree";
    for (std::size_t i = 0; i < now.size(); ++i) now[i] *= i % 2 == 0 ? 1.2 : 0.8;
    const OperatorRatios apart = operator_ratios(profile, cells, now, 0);
    EXPECT_GT(apart.error.compute, 0.05) << name_of(type);
    EXPECT_GT(apart.error.memory, 0.05) << name_of(type);
  }
}

TEST(Probe, AMessageCountsByWhatIsBeyondCalibrationsOwnScatter) {
  EXPECT_DOUBLE_EQ(message_ratio({3, 2}, 2, 0), 1) << "the lower look, as calibration keeps it";
  EXPECT_DOUBLE_EQ(message_ratio({3, 4}, 2, 0), 1.5);
  EXPECT_DOUBLE_EQ(message_ratio({3, 4}, 2, 0.25), 1.2);
  EXPECT_DOUBLE_EQ(message_ratio({3, 4}, 2, 0.6), 1) << "within the scatter";
  EXPECT_DOUBLE_EQ(message_ratio({1, 4}, 2, 0.6), 0.8) << "quicker by more than that";
  EXPECT_DOUBLE_EQ(message_ratio({1, 1.5}, 2, 1.5), 1);
}

std::vector<NoiseSample> noisy_minute() {
  std::vector<NoiseSample> samples;
  for (int second = 0; second < 60; ++second) {
    const double slow = second % 10 == 0 ? 1.5 : 1 + 0.001 * (second % 3);
    samples.push_back({static_cast<double>(second), 1e-3 * slow, 2e-3 * slow, 1e-2,
                       1e-2 + 1e-5 * (second % 7), 2e-6, slow - 1, 0, 3, std::nan("")});
  }
  return samples;
}

TEST(Noise, SaysWhatMovesAndWhatMovesTogether) {
  const std::string text = noise_summary(noisy_minute());
  EXPECT_NE(text.find("gemm_alone_s           median   1001.00 us"), std::string::npos) << text;
  EXPECT_NE(text.find("6 of 60 seconds above 1.2 times the median"), std::string::npos) << text;
  EXPECT_NE(text.find("together: gemm_alone_s and gemm_busy_s, correlation +1.00"), std::string::npos)
      << text;
  EXPECT_NE(text.find("together: gemm_busy_s and others, correlation +1.00"), std::string::npos) << text;
  EXPECT_EQ(text.find("together: memory"), std::string::npos) << text;
  EXPECT_NE(text.find("frequency_hz           not known on this machine"), std::string::npos) << text;
}

TEST(Noise, CsvRoundTrip) {
  const std::vector<NoiseSample> samples = noisy_minute();
  const std::string csv = to_csv(samples);
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "second,gemm_alone_s,gemm_busy_s,memory_alone_s,memory_busy_s,message_s,others,stolen,"
            "involuntary_switches,"
            "frequency_hz");
  EXPECT_EQ(to_csv(parse_noise_csv(csv)), csv);
  EXPECT_TRUE(std::isnan(parse_noise_csv(csv)[0].frequency));
  EXPECT_THROW(parse_noise_csv("second\n1,fast"), InputError);
}

// The duration of nothing is no constant: the training code's own share is measured, and is less than its
// steps.
TEST(HostTime, IsMeasuredOnTheRealTrainingCode) {
  const Seconds allocation = measure_allocation();
  EXPECT_GT(allocation.value, 0);
  const HostTime host = measure_host_time(allocation);
  // On a machine that is busy otherwise nothing may be left of the differences.
  EXPECT_GE(host.call.value, 0);
  EXPECT_GE(host.action.value, 0);
  EXPECT_GE(host.step.value, 0);
  EXPECT_LT(host.call.value, 100e-6);
  EXPECT_LT(host.step.value, 100e-3);
}

TEST(HostTime, ColdCallsAreWhatTheTablesLeaveOut) {
  HardwareProfile free;
  free.kind = Calibrated{1};
  free.peak_fp32 = free.peak_16bit = {1e30};
  free.memory_bandwidth = free.link_bandwidth = {1e30};
  const Seconds all = measure_cold_call(free);  // nothing is in the tables: all of a call is left out
  EXPECT_GT(all.value, 5e-8);
  HardwareProfile slow = free;
  slow.launch_overhead = {1};
  EXPECT_EQ(measure_cold_call(slow).value, 0);
}

}  // namespace
}  // namespace plumbline::calibration
