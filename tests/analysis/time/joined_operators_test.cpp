// Fused operators: their places in a step, and their times.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/work/operator_list.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::joined_operators_test {
namespace {

using enum ActionType;

/// Totals over all calls of an action on the only stage.
struct Found {
  std::int64_t joined_norms = 0, joined_biases = 0;
  std::int64_t sums = 0, norms = 0, biases = 0;  // of their own
};
Found found_in(const RunConfig& config, ActionType type) {
  Found found;
  for (const OperatorCall& call : calls_of(work_of(stage_shapes(config, 1)[0], type))) {
    const std::string_view name = call.name();
    if (name.ends_with("norm_forward"))
      (name.starts_with("add_") ? found.joined_norms : found.norms) += call.count;
    if (name == "add" || name == "dropout_add") found.sums += call.count;
    if (name == "bias_backward") found.biases += call.count;
    if (call.as<GemmCall>() != nullptr && call.as<GemmCall>()->bias_gradient)
      found.joined_biases += call.count;
  }
  return found;
}

struct Case {
  const char* name;
  RunConfig config;
  ActionType type;
  Found expected;
};

/// Two layers.
std::vector<Case> cases() {
  const auto with = [](RunConfig config, auto&& change) {
    change(config);
    return config;
  };
  const RunConfig gpt2 = sample::tiny_gpt2();
  const RunConfig qwen2 = sample::tiny_qwen2();
  const RunConfig sixteen = with(gpt2, [](RunConfig& c) {
    c.numerics.precision = DType::bf16;
    c.numerics.grad_dtype = GradDType::same;
  });
  const RunConfig dropout = with(gpt2, [](RunConfig& c) { c.numerics.hidden_dropout = 0.1; });
  const auto on_two = [&](RunConfig config, bool sequence_parallel) {
    config.parallel.tensor = config.parallel.world_size = 2;
    config.parallel.sequence_parallel = sequence_parallel;
    return config;
  };
  const RunConfig parallel = with(gpt2, [](RunConfig& c) { c.model.block = Block::parallel; });
  const RunConfig normed = with(gpt2, [](RunConfig& c) { c.model.norms.residual = 1; });
  return {
      {"attention's sums, not those of the feed-forward layers", gpt2, forward, {2, 0, 2, 3, 0}},
      {"all four products of a layer have a bias", gpt2, backward, {0, 8, 0, 0, 0}},
      {"of weights only", gpt2, backward_weight, {0, 8, 0, 0, 0}},
      {"of queries, keys and values only", qwen2, backward, {0, 2, 0, 0, 0}},
      {"gradients of 16 bits would be rounded once more", sixteen, backward, {0, 0, 0, 0, 8}},
      {"what drops is drawn first", dropout, forward, {0, 0, 5, 5, 0}},
      {"without sequence parallelism all rows are there", on_two(gpt2, false), backward, {0, 8, 0, 0, 0}},
      {"with it products that make what is added to the stream read gathered rows",
       on_two(gpt2, true),
       backward,
       {0, 4, 0, 0, 4}},
      {"both norms of the stream itself", parallel, forward, {0, 0, 4, 5, 0}},
      {"what is added to is a norm's output", normed, forward, {0, 0, 4, 5, 0}},
      {"FP8 reads other numbers than are summed", sample::tiny_hybrid(), backward, {0, 0, 0, 0, 2}},
  };
}

TEST(JoinedOperators, AreWhereTheRowsAreTheSame) {
  for (const Case& c : cases()) {
    const Found found = found_in(c.config, c.type);
    EXPECT_EQ(found.joined_norms, c.expected.joined_norms) << c.name;
    EXPECT_EQ(found.norms, c.expected.norms) << c.name;
    EXPECT_EQ(found.sums, c.expected.sums) << c.name;
    EXPECT_EQ(found.joined_biases, c.expected.joined_biases) << c.name;
    EXPECT_EQ(found.biases, c.expected.biases) << c.name;
  }
}

OperatorCall memory_call(const char* name, std::int64_t elements, double bytes, std::int64_t width = 0) {
  return {.work = StreamCall{.name = name, .elements = elements, .bytes_per_element = bytes, .width = width},
          .label = name};
}
OperatorCall weight_gradient(bool with_bias) {
  return {.work = GemmCall{.pass = GemmPass::weight_gradient,
                           .tokens = 4096,
                           .out = 1024,
                           .in = 2048,
                           .bias_gradient = with_bias}};
}
constexpr std::int64_t kElements = 4096 * 1024;

/// A processor does one part after the other: the sum of both measured times.
TEST(JoinedOperators, TakeWhatTheirPartsTakeOnAMeasuredMachine) {
  HardwareProfile p;
  p.kind = Calibrated{1};
  p.peak_fp32 = p.peak_16bit = {1e12};
  p.memory_bandwidth = p.link_bandwidth = {1e9};
  p.launch_overhead = {1e-7};
  OperatorTimes times;
  times.memory_bound["add.bf16"] = {{1024, 1 << 24}, {1e-6, 1e-2}};
  times.memory_bound["bias_backward.bf16"] = {{1024, 1 << 24}, {3e-7, 4e-3}};
  times.by_row["layernorm_forward.bf16"] = {{1024, 1 << 24}, {1024}, {1}, {2e-6, 3e-2}};
  times.gemm["weight_gradient.bf16"] = {{4096}, {1024}, {2048}, {5e-3}};
  p.alone = {times};
  const auto seconds = [&](const OperatorCall& call) { return time_of(call, p, {}).value; };
  const OperatorCall joined = memory_call("add_layernorm_forward", kElements, 8, 1024);
  EXPECT_DOUBLE_EQ(seconds(joined), seconds(memory_call("add", kElements, 6)) +
                                        seconds(memory_call("layernorm_forward", kElements, 4, 1024)));
  EXPECT_DOUBLE_EQ(seconds(weight_gradient(true)),
                   seconds(weight_gradient(false)) + seconds(memory_call("bias_backward", kElements, 2)));
  // Measured as a whole, on a GPU, that counts.
  p.alone[0].memory_bound["add_layernorm_forward.bf16"] = {{1024, 1 << 24}, {1e-6, 1e-3}};
  EXPECT_LT(seconds(joined), seconds(memory_call("add", kElements, 6)));
}

/// An accelerator reads and writes once, and launches once; sums of columns cost their addition to the
/// gradient.
TEST(JoinedOperators, SaveAPassOnAnAccelerator) {
  const HardwareProfile& p = *find_hardware_preset("h100-sxm-80gb");
  const auto seconds = [&](const OperatorCall& call) { return time_of(call, p, {}).value; };
  const double launch = seconds(memory_call("add", 1, 6));
  const double parts =
      seconds(memory_call("add", kElements, 6)) + seconds(memory_call("rmsnorm_forward", kElements, 4, 1024));
  const double joined = seconds(memory_call("add_rmsnorm_forward", kElements, 8, 1024));
  EXPECT_NEAR((joined - launch) / (parts - 2 * launch), 0.8, 0.001);
  const double apart = seconds(memory_call("bias_backward", kElements, 2));
  const double added = seconds(weight_gradient(true)) - seconds(weight_gradient(false));
  EXPECT_LT(added, apart);
  EXPECT_NEAR(added, seconds(memory_call("bias_backward", 1024, 12)), 1e-12);
}

/// A deterministic backward writes the gradients of all scores and reads the causal half of them.
TEST(DeterministicBackward, MovesTheGradientsOfItsScores) {
  const HardwareProfile& p = *find_hardware_preset("h100-sxm-80gb");
  RunConfig config = sample::tiny_qwen2();
  config.numerics.precision = DType::bf16;
  const auto backward_of = [&](Backend backend, bool deterministic) {
    config.machine.backend = backend;
    config.numerics.deterministic_mode = deterministic;
    for (OperatorCall call : calls_of(work_of(stage_shapes(config, 1)[0], backward))) {
      if (call.as<AttentionCall>() == nullptr) continue;
      call.get<AttentionCall>().heads = 4 * 32;
      call.get<AttentionCall>().queries = 4096;
      call.count = 1;
      return time_of(call, p, {}).value;
    }
    return 0.0;
  };
  const double longer = backward_of(Backend::cuda, true) - backward_of(Backend::cuda, false);
  EXPECT_NEAR(longer, 2118e-6, 0.2 * 2118e-6) << "rates.jsonl of an H100, Llama 3.1 8B, 4 x 4096";
  EXPECT_EQ(backward_of(Backend::cpu, true), backward_of(Backend::cpu, false));
}

}  // namespace
}  // namespace plumbline::joined_operators_test
