// A loss on an fp32 copy of 16-bit logits: its memory, computed by hand, and its additional computation.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/operator_list.hpp"
#include "core/base/error.hpp"
#include "tests/analysis/memory/vocabulary_configs.hpp"

namespace plumbline::fp32_loss_test {
namespace {

using enum ActionType;
constexpr Category kParameters = Category::parameters;
constexpr Category kGradients = Category::gradients;
constexpr Category kActivations = Category::activations;
constexpr Category kLogits = Category::logits;
constexpr Category kWorkspace = Category::workspace;

MemoryBreakdown bytes(std::initializer_list<std::pair<Category, std::int64_t>> parts) {
  MemoryBreakdown memory;
  for (const auto& [category, value] : parts) memory[category].value = value;
  return memory;
}

RunConfig config_of(const char* method, int zero) {
  RunConfig config = sample::vocabulary_config(method, 1, 2, 2, 2);
  config.model.embedding.tied = false;
  config.numerics.precision = DType::bf16;
  config.numerics.cross_entropy_loss_fusion = false;
  config.parallel.dp.zero_stage = zero;
  return config;
}

std::vector<StageShape> shapes_of(const RunConfig& config) {
  return stage_shapes(config, sample::vocabulary_schedule(config));
}

struct MemoryCase {
  const char* name;
  const char* method;
  int stage;
  ActionType type;
  bool with_extra;
  int zero;
  MemoryBreakdown peak;
  MemoryBreakdown net;
};

// tiny_qwen2 in bf16, one layer on each of two ranks. T·h is 64 bytes, statistics of a norm 16. A layer
// keeps 832 and its y 64; its unit is 640 elements padded. Whole vocabulary: logits 4·32·2 = 256, their
// copy 512, the loss's statistics 48, the output layer 256 elements.
std::vector<MemoryCase> whole_cases() {
  const char* const whole = "none";
  const std::int64_t forward_keeps = 832 + 64 + 64 + 16;
  return {
      {"F of a stage that is not last", whole, 0, forward, true, 0, bytes({{kActivations, 64 + 832}}),
       bytes({{kActivations, 64 + 832}})},
      {"F: both logits with the statistics, then the copy alone", whole, 1, forward, true, 0,
       bytes({{kActivations, forward_keeps}, {kLogits, 256 + 512}, {kWorkspace, 48}}),
       bytes({{kActivations, forward_keeps}, {kLogits, 512}})},
      {"B: the gradient with the fp32 one", whole, 1, backward, true, 0, bytes({{kLogits, 256}}),
       bytes({{kActivations, -forward_keeps - 64}, {kLogits, -512}})},
      {"I leaves the gradient to W", whole, 1, backward_input, true, 0, bytes({{kLogits, 256}}),
       // G 64; final input and statistics 80; of the layer two norms' statistics, log-sum-exp 32, x
       bytes({{kActivations, 64 - 80 - 32 - 32 - 64}, {kLogits, 256 - 512}})},
      {"W",
       whole,
       1,
       backward_weight,
       true,
       0,
       {},
       // final norm output; activation output 128, fc1 256, qkv 128, five of the stream
       bytes({{kActivations, -64 - 128 - 256 - 128 - 5 * 64}, {kLogits, -256}})},
      {"F, ZeRO 3: the output layer has gone", whole, 1, forward, true, 3,
       // 1280 for the layer, 512 for the output layer while the layer is used
       bytes({{kParameters, 1280 + 512}, {kActivations, 832 + 64}}),
       bytes({{kActivations, forward_keeps}, {kLogits, 512}})},
      {"I, ZeRO 3: rounded with the output layer; the layer's values come afterwards", whole, 1,
       backward_input, true, 3,
       // 512 + 256, then with dnorm 64
       bytes({{kParameters, 512 + 1280}, {kLogits, 256 - 512}, {kWorkspace, 64}}),
       bytes({{kActivations, 64 - 80 - 32 - 32 - 64}, {kLogits, 256 - 512}})},
  };
}

// Shards of v = 16: logits 128, their copy 256, statistics of the shards 112, dX 128, a shard 128 elements.
std::vector<MemoryCase> sharded_cases() {
  const char* const one = "vocab-2";
  const char* const two = "vocab-1";
  return {
      {"S, two barriers, last rank: copied before the statistics come", two, 1, vocab_forward, true, 0,
       bytes({{kLogits, 128 + 256}}), bytes({{kLogits, 256}, {kWorkspace, 112}})},
      {"S, two barriers: X(m+1) comes last", two, 0, vocab_forward, true, 0,
       bytes({{kLogits, 256}, {kWorkspace, 112}, {kActivations, 64}}),
       bytes({{kLogits, 256}, {kWorkspace, 112}, {kActivations, 64}})},
      {"S, one barrier: the rounded softmax with dX", one, 1, vocab_forward, true, 0,
       bytes({{kLogits, 256}, {kWorkspace, 112 + 128 + 128}}),
       bytes({{kLogits, 256}, {kWorkspace, 112 + 128}})},
      {"S, one barrier, ZeRO 3: it has gone when the target rows come", one, 0, vocab_forward, true, 3,
       bytes({{kParameters, 256}, {kLogits, 256}, {kWorkspace, 112 + 128 + 128}}),
       bytes({{kLogits, 256}, {kWorkspace, 112 + 128 + 64}, {kActivations, 64}})},
      {"T, two barriers: the gradient with the fp32 one", two, 0, vocab_backward, true, 0,
       bytes({{kLogits, 128}}), bytes({{kLogits, -256}, {kWorkspace, -112}, {kActivations, -64}})},
      {"T, two barriers, last rank: dX after the fp32 one has gone", two, 1, vocab_backward, true, 0,
       bytes({{kLogits, 128}}), bytes({{kLogits, -256}, {kWorkspace, 128 - 112}, {kActivations, -64}})},
      {"T, two barriers, ZeRO 3: the shard's gradient with the logits', dX", two, 1, vocab_backward, true, 3,
       bytes({{kGradients, 512}, {kLogits, 128 - 256}, {kWorkspace, 128}}),
       bytes({{kLogits, -256}, {kWorkspace, 128 - 112}, {kActivations, -64}})},
      {"T, one barrier: in place of dX, which is as large",
       one,
       0,
       vocab_backward,
       true,
       0,
       {},
       bytes({{kLogits, -256}, {kWorkspace, -112 - 128}, {kActivations, -64}})},
      {"T, one barrier, last rank: dX stays", one, 1, vocab_backward, true, 0, bytes({{kLogits, 128}}),
       bytes({{kLogits, -256}, {kWorkspace, -112}, {kActivations, -64}})},
      {"T, one barrier, ZeRO 2: the shard's gradient with the logits'", one, 0, vocab_backward, true, 2,
       bytes({{kGradients, 512}, {kLogits, 128 - 256}, {kWorkspace, -128}}),
       bytes({{kLogits, -256}, {kWorkspace, -112 - 128}, {kActivations, -64}})},
  };
}

TEST(Fp32Loss, MemoryByHand) {
  std::vector<MemoryCase> cases = whole_cases();
  const std::vector<MemoryCase> sharded = sharded_cases();
  cases.insert(cases.end(), sharded.begin(), sharded.end());
  for (const MemoryCase& c : cases) {
    SCOPED_TRACE(fmt::format("{}, {}", c.method, c.name));
    const auto shapes = shapes_of(config_of(c.method, c.zero));
    const ActionProfile profile =
        action_profile(shapes[static_cast<std::size_t>(c.stage)], c.type, c.with_extra);
    for (int i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      EXPECT_EQ(profile.peak[category].value, c.peak[category].value) << "peak " << name_of(category);
      EXPECT_EQ(profile.net[category].value, c.net[category].value) << "net " << name_of(category);
    }
  }
}

TEST(Fp32Loss, EveryStepEndsWhereItBegan) {
  for (const char* method : {"none", "vocab-1", "vocab-2", "interlaced"}) {
    for (const char* schedule_name : {"1f1b", "v-half"}) {
      for (const int zero : {0, 1, 2, 3}) {
        if (method == std::string("interlaced") && schedule_name != std::string("1f1b")) continue;
        SCOPED_TRACE(fmt::format("{} {} ZeRO {}", method, schedule_name, zero));
        RunConfig config = config_of(method, zero);
        config.parallel.pp.schedule = schedule_name;
        config.model.layers = 4;
        config.batch.global_batch_size = 8;
        const Schedule schedule = sample::vocabulary_schedule(config);
        const MemoryPrediction prediction = predict_memory(config, schedule, MemoryDetail::timeline);
        for (const RankMemory& rank : prediction.ranks) EXPECT_EQ(rank.timeline.back().after, rank.held);
        config.numerics.cross_entropy_loss_fusion = true;
        EXPECT_LE(predict_memory(config, schedule).peak, prediction.peak);
      }
    }
  }
}

TEST(Fp32Loss, IsNothingBeside32BitLogits) {
  for (const char* method : {"none", "vocab-1", "vocab-2"}) {
    RunConfig config = config_of(method, 0);
    config.numerics.precision = DType::fp32;
    const Schedule schedule = sample::vocabulary_schedule(config);
    const MemoryPrediction unfused = predict_memory(config, schedule);
    config.numerics.cross_entropy_loss_fusion = true;
    EXPECT_EQ(unfused.peak, predict_memory(config, schedule).peak) << method;
    EXPECT_FALSE(shapes_of(config)[1].ends.loss_in_fp32);
  }
}

/// Totals over the calls of an action.
struct Work {
  double logit_bytes = 0;  // read and written by passes over the logits
  std::int64_t copies = 0;
  std::int64_t allocations = 0;
  double flops = 0;
};

Work work_in(const StageShape& shape, ActionType type) {
  Work work;
  for (const OperatorCall& call : calls_of(work_of(shape, type))) {
    work.flops += flops_of(call).value;
    if (call.as<GemmCall>() != nullptr) {
      EXPECT_EQ(call.type, DType::bf16);
    }
    if (call.as<AllocationCall>() != nullptr) work.allocations += call.count;
    if (call.as<StreamCall>() == nullptr || call.elements() != shape.stream.tokens * shape.ends.vocab)
      continue;
    const std::string name(call.name());
    if (name == "copy") {
      EXPECT_EQ(call.as<StreamCall>()->bytes_per_element, 6);
      EXPECT_EQ(call.type, DType::bf16);
      work.copies += call.count;
    } else if (name.rfind("cross_entropy", 0) == 0) {
      EXPECT_EQ(call.type, shape.ends.loss_in_fp32 ? DType::fp32 : DType::bf16) << name;
      work.logit_bytes +=
          call.as<StreamCall>()->bytes_per_element * static_cast<double>(call.count * call.elements());
    }
  }
  return work;
}

// Maximum 1, sums 1, gradient or softmax 2 reads and writes of T·v elements: 4·32, of a shard 4·16.
TEST(Fp32Loss, PassesOverTheLogits) {
  struct Case {
    const char* method;
    ActionType type;
    double passes;  // reads and writes of an element by the loss
    std::int64_t copies;
  };
  const Case cases[] = {
      {"none", forward, 4, 1},           {"none", backward, 0, 1},         {"none", backward_input, 0, 1},
      {"none", backward_weight, 0, 0},   {"vocab-1", forward, 0, 0},       {"vocab-1", vocab_forward, 4, 1},
      {"vocab-1", vocab_backward, 2, 1}, {"vocab-2", vocab_forward, 4, 2}, {"vocab-2", vocab_backward, 2, 1},
      {"vocab-2", backward, 0, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", c.method, name_of(c.type)));
    StageShape shape = shapes_of(config_of(c.method, 0))[1];
    ASSERT_TRUE(shape.ends.loss_in_fp32);
    const auto elements = static_cast<double>(shape.stream.tokens * shape.ends.vocab);
    const Work unfused = work_in(shape, c.type);
    shape.ends.loss_in_fp32 = false;
    const Work fused = work_in(shape, c.type);
    EXPECT_EQ(unfused.logit_bytes, 4 * c.passes * elements);
    EXPECT_EQ(fused.logit_bytes, 2 * c.passes * elements);
    EXPECT_EQ(unfused.copies - fused.copies, c.copies);
    EXPECT_EQ(unfused.allocations - fused.allocations, c.copies);
    EXPECT_EQ(unfused.flops, fused.flops);
  }
}

}  // namespace
}  // namespace plumbline::fp32_loss_test
