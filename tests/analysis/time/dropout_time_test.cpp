// Operators that dropout adds to a step, and their times on a measured machine and on an accelerator.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "analysis/work/operator_list_calls.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::dropout_time_test {
namespace {

using enum ActionType;

RunConfig dropping(RunConfig config = sample::tiny_qwen2()) {
  config.numerics.precision = DType::bf16;
  config.numerics.hidden_dropout = config.numerics.attention_dropout = 0.1;
  return config;
}

bool drops(const OperatorCall& call) {
  return call.as<AttentionCall>() != nullptr && call.as<AttentionCall>()->dropout;
}

std::int64_t times(const std::vector<OperatorCall>& calls, std::string_view name) {
  std::int64_t count = 0;
  for (const OperatorCall& call : calls) count += call.name() == name ? call.count : 0;
  return count;
}

// A stage of one layer: masks, sums with dropped tensors, gradients of dropout's inputs. The first stage has
// the embedding's too.
struct CallCase {
  const char* name;
  ActionType type;
  Recompute recompute;
  bool first;
  int masks;
  int sums;
  int gradients;
};
constexpr CallCase kCallCases[] = {
    {"forward", forward, Recompute::none, false, 2, 2, 0},
    {"forward of the first stage", forward, Recompute::none, true, 3, 3, 0},
    {"backward", backward, Recompute::none, false, 0, 0, 2},
    {"backward of the first stage", backward, Recompute::none, true, 0, 0, 3},
    {"full recomputation draws the mask of the MLP, whose sum is not wanted", backward, Recompute::full,
     false, 2, 1, 2},
    {"selective recomputation draws none", backward, Recompute::selective, false, 0, 0, 2},
    {"input gradients", backward_input, Recompute::none, false, 0, 0, 2},
    {"weight gradients", backward_weight, Recompute::none, false, 0, 0, 0},
};

TEST(DropoutCalls, OfALayer) {
  for (const CallCase& c : kCallCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = dropping();
    config.recompute.granularity = c.recompute;
    StageShape shape = stage_shapes(config, 2)[0];
    shape.place.first = c.first;
    const std::vector<OperatorCall> calls = calls_of(work_of(shape, c.type));
    EXPECT_EQ(times(calls, "dropout_mask"), c.masks);
    EXPECT_EQ(times(calls, "dropout_add"), c.sums);
    EXPECT_EQ(times(calls, "dropout_backward"), c.gradients);
    EXPECT_EQ(times(calls, "add"), 0);
    for (const OperatorCall& call : calls) EXPECT_EQ(drops(call), call.as<AttentionCall>() != nullptr);
    shape.block.dropout = shape.attention.dropout = false;
    const std::vector<OperatorCall> without = calls_of(work_of(shape, c.type));
    // Attention's sum is normed as it is made.
    EXPECT_EQ(times(without, "add") + times(without, "add_rmsnorm_forward") +
                  times(without, "add_layernorm_forward"),
              c.sums - (c.first && c.type == forward ? 1 : 0));
    EXPECT_EQ(times(without, "dropout_mask") + times(without, "dropout_add"), 0);
    for (const OperatorCall& call : without) EXPECT_FALSE(drops(call));
  }
}

// 4·8 elements, with sequence parallelism 2·8: 3·2 + 1 bytes for the sum, 2·2 + 1 if there is no
// residual.
TEST(DropoutCalls, Sizes) {
  RunConfig config = dropping();
  for (const int tensor : {1, 2}) {
    config.parallel.world_size = config.parallel.tensor = tensor;
    config.parallel.sequence_parallel = true;
    const StageShape shape = stage_shapes(config, 1)[0];
    double added = 0;
    std::vector<OperatorCall> calls = forward_calls(shape);
    const std::vector<OperatorCall> back = backward_calls(shape);
    calls.insert(calls.end(), back.begin(), back.end());
    for (const OperatorCall& call : calls) {
      const std::string_view name = call.name();
      if (name.substr(0, 8) != "dropout_") continue;
      EXPECT_EQ(call.elements(), 32 / tensor);
      EXPECT_EQ(call.type, name == "dropout_mask" ? DType::uint8 : DType::bf16);
      if (name == "dropout_mask") {
        EXPECT_EQ(call.as<StreamCall>()->bytes_per_element, 1);
      } else if (name == "dropout_backward") {
        EXPECT_EQ(call.as<StreamCall>()->bytes_per_element, 5);
      } else {
        added += call.as<StreamCall>()->bytes_per_element * static_cast<double>(call.count);
      }
    }
    EXPECT_EQ(added, 2 * 2 * 7 + 5);
  }
}

OperatorCall call_of(const char* name, DType type, std::int64_t elements, double bytes) {
  return CallList::memory_call(name, elements, bytes, type);
}

// add: 1 ns per element in fp32 (12 bytes), 0.3 ns in 16 bits (6 bytes). A time of its own is preferred.
TEST(DropoutTime, OnAMeasuredMachine) {
  HardwareProfile hardware;
  hardware.alone.resize(1);
  OperatorTimes& times = hardware.alone[0];
  times.working_set.value = 1;
  times.memory_bound["add.fp32"] = {{1000}, {1e-6}};
  times.memory_bound["add.bf16"] = {{1000}, {3e-7}};
  times.attention["forward.bf16"] = {{64}, {16}, {1}, {2e-6}};
  const auto seconds = [&](const OperatorCall& call) { return time_of(call, hardware, Load{}).value; };
  EXPECT_NEAR(seconds(call_of("dropout_mask", DType::uint8, 12000, 1)), 1e-6, 1e-12);
  EXPECT_NEAR(seconds(call_of("dropout_add", DType::bf16, 6000, 7)), 7 * 3e-7, 1e-12);
  EXPECT_NEAR(seconds(call_of("dropout_backward", DType::bf16, 6000, 5)), 5 * 3e-7, 1e-12);
  OperatorCall attention{
      .work = AttentionCall{.dropout = true, .queries = 64, .head_dim = 16, .group = 1, .heads = 3}};
  EXPECT_NEAR(seconds(attention), 6e-6, 1e-12);
  times.memory_bound["dropout_mask.uint8"] = {{1000}, {5e-6}};
  times.attention["forward_dropout.bf16"] = {{64}, {16}, {1}, {3e-6}};
  EXPECT_NEAR(seconds(call_of("dropout_mask", DType::uint8, 1000, 1)), 5e-6, 1e-12);
  EXPECT_NEAR(seconds(attention), 9e-6, 1e-12);
  attention.get<AttentionCall>().dropout = false;
  EXPECT_NEAR(seconds(attention), 6e-6, 1e-12);
}

TEST(DropoutTime, OnAnAccelerator) {
  Device device = find_hardware_preset("a100-sxm-80gb")->accelerator()->constants.device;
  const auto seconds = [&](const OperatorCall& call) { return accelerator_time(call, device).value; };
  constexpr std::int64_t kElements = 1 << 24;
  const OperatorCall mask = call_of("dropout_mask", DType::uint8, kElements, 1);
  EXPECT_DOUBLE_EQ(seconds(mask), kElements * device.random_s);
  EXPECT_DOUBLE_EQ(seconds(call_of("dropout_add", DType::bf16, kElements, 7)),
                   stream_seconds(device, 7.0 * kElements));
  OperatorCall attention{.work = AttentionCall{.queries = 2048, .head_dim = 128, .heads = 24}};
  const double without = seconds(attention);
  attention.get<AttentionCall>().dropout = true;
  // A number for every pair up to the query, blocks on the diagonal whole; four times as cheap as a mask's.
  const double pairs = 24 * 0.5 * 2048 * (2048 + 256);
  EXPECT_NEAR(seconds(attention) - without, pairs * device.random_s / 4, 1e-12);
  device.random_s = 0;
  EXPECT_DOUBLE_EQ(seconds(mask), stream_seconds(device, kElements));
}

}  // namespace
}  // namespace plumbline::dropout_time_test
