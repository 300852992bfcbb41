// Cells of a calibration, where their operands lie, and times of the host.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

#include "analysis/work/operator_list.hpp"
#include "bench/measure/calibrate/cell_timer.hpp"
#include "bench/measure/calibrate/cells/cells.hpp"
#include "bench/measure/calibrate/cells/pools.hpp"
#include "bench/measure/calibrate/figures/assemble.hpp"
#include "bench/measure/calibrate/host_time.hpp"
#include "core/base/error.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration::calibrate_test {
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
  s.ends.vocab = s.ends.outputs = 1024;
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
      const auto updates = [&shape](Optimizer kind) {
        StageShape other = shape;
        other.numerics.optimizer.kind = kind;
        return update_calls(other, {});
      };
      for (const auto& more : {backward_calls(shape), clear_calls(shape), norm_calls(shape),
                               updates(Optimizer::adam), updates(Optimizer::sgd), updates(Optimizer::lion),
                               updates(Optimizer::muon), fp8_weight_calls(shape)}) {
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
}  // namespace plumbline::calibration::calibrate_test
