// Allocations and frees of single actions, computed by hand.
#include "analysis/memory/action_memory.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>
#include <vector>

#include "analysis/step/stage_shapes.hpp"
#include "core/base/error.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::action_memory_test {
namespace {

std::int64_t at(const MemoryBreakdown& memory, Category category) {
  return memory[category].value;
}

// One layer of a stage in the middle, fp32, one tensor rank: stream 4·8·4 = 128, statistics 16, qkv
// 4·(8+8)·4 = 256, attention output 128, log-sum-exp 2·4·4 = 32, fc1 4·32·4 = 512, activation output
// 256. A forward keeps norm 144, qkv 256, attention 160, x2 128, norm 144, fc1 512, activation 256 = 1600,
// and 128 for y unless it is the send buffer. Its matrices have 16·8 + 64 + 32·8 + 128 = 576 elements.
StageShape middle(std::int64_t layers) {
  StageShape shape = stage_shapes(sample::tiny_qwen2(), 2)[0];
  shape.place.first = false;
  shape.layers = layers;
  return shape;
}
// The same with two tensor ranks: q = k = 4, F = 8, f = 16.
StageShape middle_of_two(std::int64_t layers, DType type) {
  RunConfig config = sample::tiny_qwen2();
  config.parallel.world_size = config.parallel.tensor = 2;
  config.parallel.sequence_parallel = true;
  config.numerics.precision = type;
  StageShape shape = stage_shapes(config, 2)[0];
  shape.place.first = false;
  shape.layers = layers;
  return shape;
}

MemoryBreakdown bytes(std::initializer_list<std::pair<Category, std::int64_t>> parts) {
  MemoryBreakdown memory;
  for (const auto& [category, value] : parts) memory[category].value = value;
  return memory;
}

using enum ActionType;
constexpr Category kParameters = Category::parameters;
constexpr Category kGradients = Category::gradients;
constexpr Category kActivations = Category::activations;
constexpr Category kLogits = Category::logits;
constexpr Category kCommunication = Category::communication;
constexpr Category kWorkspace = Category::workspace;

struct ActionCase {
  const char* name;
  StageShape shape;
  ActionType type;
  MemoryBreakdown peak;
  MemoryBreakdown net;
};

StageShape with(StageShape shape, Recompute recompute, std::int64_t group = 1) {
  shape.recomputation.granularity = recompute;
  if (recompute == Recompute::selective) shape.recomputation.modules = kCoreAttention;
  shape.recomputation.layers = group;
  return shape;
}
StageShape with_zero(StageShape shape, int zero) {
  shape.sharding.zero = zero;
  shape.overlap.param_gather = zero == 3;
  shape.sharding.data = 2;
  return shape;
}
/// Nothing of the data group alongside computation.
StageShape awaited(StageShape shape) {
  shape.overlap.grad_reduce = shape.overlap.param_gather = false;
  return shape;
}
StageShape with_neighbours(StageShape shape) {
  shape.place.previous_here = shape.place.next_here = true;
  return shape;
}
StageShape with_ends(StageShape shape, bool first, bool last) {
  shape.place.first = first;
  shape.place.last = last;
  return shape;
}

std::vector<ActionCase> action_cases() {
  // Two tensor ranks, sequence parallel: stream 2·8·e, gathered 4·8·e, statistics 8, qkv 4·(4+8)·e,
  // attention 4·4·e, log-sum-exp 16, fc1 4·16·e, activation 4·8·e; partial sums 4·8·4 = 128, their
  // piece 64.
  const StageShape sp32 = middle_of_two(1, DType::fp32);
  const StageShape sp16 = middle_of_two(1, DType::bf16);
  return {
      {"sequence parallel fp32: the peak is the reduction into the send buffer", sp32, forward,
       // 72 + 192 + 80 + 64 + 72 + 256 + 128
       bytes({{kActivations, 864}, {kWorkspace, 128}}), bytes({{kActivations, 864}})},
      {"sequence parallel bf16: partial sums with their piece", sp16, forward,
       // 40 + 96 + 48 + 32 + 40 + 128 + 64
       bytes({{kActivations, 448}, {kWorkspace, 128 + 64}}), bytes({{kActivations, 448}})},
      {"sequence parallel lookup of a first stage: the reduction at the end still is more",
       with_ends(sp32, true, false), forward, bytes({{kActivations, 64 + 864}, {kWorkspace, 128}}),
       bytes({{kActivations, 64 + 864}})},
      {"selective: attention output and log-sum-exp are not kept", with(middle(1), Recompute::selective),
       // before they are freed 144 + 256 + 160 + 128, at the end 1600 - 160
       forward, bytes({{kActivations, 1440}}), bytes({{kActivations, 1440}})},
      {"selective backward: gone before the attention comes back", with(middle(1), Recompute::selective),
       // dact 256, activation -256, dfc1 512
       backward, bytes({{kActivations, -256}, {kWorkspace, 256 + 512}}),
       bytes({{kActivations, -1440 - 128}, {kCommunication, -128}})},
      {"full, groups of 2 in 3 layers: the input of layer 2 is kept; peak at the end of layer 1",
       // layer 0 leaves its y, layer 1 adds 1600 and its own y
       with(middle(3), Recompute::full, 2), forward, bytes({{kActivations, 128 + 1728}}),
       bytes({{kActivations, 128}})},
      {"full backward: layers 0 and 1 recomputed, y of layer 1 not, layer 2's input gone",
       // -128 + 1728 + 1600, then dact 256 for the activation output, then dfc1 512
       with(middle(3), Recompute::full, 2), backward,
       bytes({{kActivations, -128 + 3328 - 256}, {kWorkspace, 768}}),
       bytes({{kActivations, -256}, {kCommunication, -128}})},
      {"ZeRO 2 backward: layer 0's gradient during the reduce-scatter of layer 1's",
       // 576 elements padded to 640: 2560 bytes, piece 1280; layer 1 has freed 1600 + 128
       with_zero(middle(2), 2), backward,
       bytes({{kGradients, 2560 + 1280 + 2560}, {kActivations, -1728 - 256}, {kWorkspace, 768}}),
       bytes({{kActivations, -1728 - 1600 - 128}, {kCommunication, -128}})},
      {"ZeRO 3 forward: two units at once until the last layer", with_zero(middle(2), 3), forward,
       bytes({{kParameters, 2 * 2560}, {kActivations, 1728}}), bytes({{kActivations, 1728 + 1600}})},
      {"ZeRO 3 backward: two units and one gradient", with_zero(middle(2), 3), backward,
       bytes({{kParameters, 2 * 2560}, {kGradients, 2560}, {kActivations, -256}, {kWorkspace, 768}}),
       bytes({{kActivations, -1728 - 1600 - 128}, {kCommunication, -128}})},
      {"ZeRO 2 backward, awaited: the first layer is the fullest", awaited(with_zero(middle(2), 2)), backward,
       bytes({{kGradients, 2560}, {kActivations, -256}, {kWorkspace, 768}}),
       bytes({{kActivations, -1728 - 1600 - 128}, {kCommunication, -128}})},
      {"ZeRO 3 forward, awaited: one unit at a time", awaited(with_zero(middle(2), 3)), forward,
       bytes({{kParameters, 2560}, {kActivations, 1728 + 1600}}), bytes({{kActivations, 1728 + 1600}})},
      {"ZeRO 3 backward, awaited: one unit and one gradient", awaited(with_zero(middle(2), 3)), backward,
       bytes({{kParameters, 2560}, {kGradients, 2560}, {kActivations, -256}, {kWorkspace, 768}}),
       bytes({{kActivations, -1728 - 1600 - 128}, {kCommunication, -128}})},
      {"input gradient: dact 256, dfc1 512; keeps 1536 of 1728", middle(1), backward_input,
       bytes({{kActivations, 512}, {kWorkspace, 256}}), bytes({{kActivations, -192}})},
      {"weight gradient frees what was kept and the received gradient",
       middle(1),
       backward_weight,
       {},
       bytes({{kActivations, -1536}, {kCommunication, -128}})},
      {"weight gradient with ZeRO 2: whole gradient, then its piece too", with_zero(middle(1), 2),
       backward_weight, bytes({{kGradients, 2560}}), bytes({{kActivations, -1536}, {kCommunication, -128}})},
      {"neighbours here: y is the next stage's x", with_neighbours(middle(1)), forward,
       bytes({{kActivations, 1728}}), bytes({{kActivations, 1728}})},
      {"neighbours here: the previous stage's G in exchange for this one's", with_neighbours(middle(1)),
       backward, bytes({{kActivations, -256}, {kWorkspace, 768}}), bytes({{kActivations, -1728}})},
      {"neighbours here: input gradient", with_neighbours(middle(1)), backward_input,
       bytes({{kActivations, 512}, {kWorkspace, 256}}), bytes({{kActivations, -192}, {kCommunication, 128}})},
      {"last stage, input gradient: dnorm, then G stays; logits and final norm output too",
       // final input 128 and statistics 16 go, G 128 comes; then the layer's 768 and -192
       with_ends(middle(1), false, true), backward_input,
       bytes({{kActivations, 128 - 144 + 512}, {kWorkspace, 256}}), bytes({{kActivations, -16 - 192}})},
      {"last stage, weight gradient: logits 4·32·4, final norm output 128, G 128 as dy",
       with_ends(middle(1), false, true),
       backward_weight,
       {},
       bytes({{kActivations, -128 - 1536 - 128}, {kLogits, -512}})},
      {"first stage, input gradient: dx is workspace until the embedding's",
       with_ends(middle(1), true, false), backward_input, bytes({{kActivations, 512}, {kWorkspace, 256}}),
       bytes({{kActivations, -192}})},
      {"received activation", middle(1), receive_forward, bytes({{kActivations, 128}}),
       bytes({{kActivations, 128}})},
      {"received gradient", sp16, receive_backward, bytes({{kCommunication, 32}}),
       bytes({{kCommunication, 32}})},
      {"shared key/value heads need no buffer", sp16, optimizer, {}, {}},
  };
}

StageShape dropping(StageShape shape) {
  shape.block.dropout = true;
  return shape;
}
StageShape dropping_unfused(StageShape shape) {
  shape.attention.dropout = shape.attention.unfused = true;
  return shape;
}
StageShape with_vocabulary(StageShape shape, std::int64_t columns) {
  shape.ends.vocab = shape.ends.outputs = columns;
  return shape;
}
StageShape with_split_vocabulary(StageShape shape) {
  shape.vocabulary.split = true;
  return shape;
}

// bench/training/dropout.md. A mask is 4·8 = 32 bytes, with two tensor ranks 16; dropped is as large as the
// stream: 128, with two tensor ranks 64 (fp32). A middle layer keeps 1600 and two masks = 1664.
std::vector<ActionCase> dropout_cases() {
  const StageShape sp32 = dropping(middle_of_two(1, DType::fp32));
  const StageShape sp16 = dropping(middle_of_two(1, DType::bf16));
  const StageShape one = dropping(middle(1));
  StageShape fused = middle(1);
  fused.attention.dropout = true;
  return {
      {"forward", one, forward, bytes({{kActivations, 1664}}), bytes({{kActivations, 1664}})},
      {"sequence parallel bf16: the mask of the MLP comes after the sum", sp16, forward,
       bytes({{kActivations, 448 + 16}, {kWorkspace, 128 + 64}}), bytes({{kActivations, 448 + 32}})},
      {"first stage: the embedding's mask with x", with_ends(sp32, true, false), forward,
       bytes({{kActivations, 64 + 16 + 864 + 16}, {kWorkspace, 128}}),
       bytes({{kActivations, 64 + 16 + 864 + 32}})},
      {"first stage, split vocabulary: x is there", with_ends(with_split_vocabulary(one), true, false),
       forward, bytes({{kActivations, 32 + 1664}}), bytes({{kActivations, 32 + 1664}})},
      {"selective: both masks are kept", with(one, Recompute::selective), forward,
       bytes({{kActivations, 1504}}), bytes({{kActivations, 1504}})},
      {"full, groups of 2 in 3 layers: no mask stays", with(dropping(middle(3)), Recompute::full, 2), forward,
       bytes({{kActivations, 128 + 1664 + 128}}), bytes({{kActivations, 128}})},
      {"backward: dropped has gone and the mask of the MLP when dfc1 comes", one, backward,
       bytes({{kActivations, -32 - 256}, {kWorkspace, 768}}),
       bytes({{kActivations, -1664 - 128}, {kCommunication, -128}})},
      {"sequence parallel: dropped 64, gathered 128, dact 128 at once", sp32, backward,
       bytes({{kActivations, -16}, {kWorkspace, 64 + 128 + 128}}),
       bytes({{kActivations, -896 - 64}, {kCommunication, -64}})},
      {"selective backward", with(one, Recompute::selective), backward,
       bytes({{kActivations, -32 - 256}, {kWorkspace, 768}}),
       bytes({{kActivations, -1504 - 128}, {kCommunication, -128}})},
      {"full backward: the mask of the MLP of a group's last layer, whose y is not computed",
       // layer 2's input gone, 1664 + 128 + 1664; then as in every backward
       with(dropping(middle(3)), Recompute::full, 2), backward,
       bytes({{kActivations, -128 + 3456 - 32 - 256}, {kWorkspace, 768}}),
       bytes({{kActivations, -256}, {kCommunication, -128}})},
      {"first stage: the embedding's mask has gone when its gradient comes, 4·512",
       with_ends(with_zero(with_vocabulary(one, 64), 2), true, false), backward,
       bytes({{kGradients, 2560 + 1280 + 2048}, {kActivations, -1664 - 128 - 32}}),
       bytes({{kActivations, -1664 - 128 - 32}, {kCommunication, -128}})},
      {"first stage, split vocabulary: G is kept, the mask is not",
       with_ends(with_split_vocabulary(one), true, false), backward,
       bytes({{kActivations, -32 - 256}, {kWorkspace, 768}}), bytes({{kActivations, -1664 - 128 - 32}})},
      {"input gradient: dropped twice 128 stays, dy and dmid go with the masks",
       // dropped 128, mask -32, dfc1 512 with dact 256
       one, backward_input, bytes({{kActivations, 608}, {kWorkspace, 256}}),
       bytes({{kActivations, -128}, {kCommunication, -128}})},
      {"input gradient, sequence parallel", sp32, backward_input,
       bytes({{kActivations, 64 - 16 + 256}, {kWorkspace, 128}}),
       // dropped 64 twice, dfc1 256, dqkv 192; less masks, fc1, two norm inputs and statistics, qkv, lse
       bytes({{kActivations, 128 + 448 - 32 - 256 - 144 - 192 - 16}, {kCommunication, -64}})},
      {"input gradient of a first stage", with_ends(one, true, false), backward_input,
       bytes({{kActivations, 608}, {kWorkspace, 256}}),
       bytes({{kActivations, -128 - 32}, {kCommunication, -128}})},
      {"weight gradient: the received gradient has gone before",
       one,
       backward_weight,
       {},
       bytes({{kActivations, -1664}})},
      {"fused attention keeps nothing", fused, forward, bytes({{kActivations, 1600}}),
       bytes({{kActivations, 1600}})},
      {"unfused attention: probabilities 128, mask 32, dropped 128, keys and values 128",
       dropping_unfused(middle(1)), forward, bytes({{kActivations, 1600 + 416}}),
       bytes({{kActivations, 1600 + 416}})},
      {"unfused attention, selective: none of it is kept",
       with(dropping_unfused(middle(1)), Recompute::selective), forward, bytes({{kActivations, 1440}}),
       bytes({{kActivations, 1440}})},
  };
}

TEST(ActionMemory, ByHand) {
  std::vector<ActionCase> cases = action_cases();
  const std::vector<ActionCase> dropout = dropout_cases();
  cases.insert(cases.end(), dropout.begin(), dropout.end());
  for (const ActionCase& c : cases) {
    SCOPED_TRACE(c.name);
    const ActionProfile profile = action_profile(c.shape, c.type);
    for (int i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      EXPECT_EQ(at(profile.peak, category), at(c.peak, category)) << "peak " << name_of(category);
      EXPECT_EQ(at(profile.net, category), at(c.net, category)) << "net " << name_of(category);
    }
  }
}

TEST(ActionMemory, DropoutIsTheStudents) {
  RunConfig config = sample::tiny_qwen2();
  config.distillation.teacher = config.model;
  config.numerics.hidden_dropout = config.numerics.attention_dropout = 0.1;
  const Schedule schedule = sample::one_rank(1);
  EXPECT_TRUE(stage_shapes(config, schedule)[0].block.dropout);
  EXPECT_TRUE(stage_shapes(config, schedule)[0].attention.dropout);
  EXPECT_FALSE(teacher_shapes(config, schedule)[0].block.dropout);
  EXPECT_FALSE(teacher_shapes(config, schedule)[0].attention.dropout);
}

TEST(ActionMemory, RefusesActionsWithoutADescription) {
  const StageShape shape = stage_shapes(sample::tiny_qwen2(), 1)[0];
  EXPECT_THROW(action_profile(shape, teacher_forward), InputError);
  EXPECT_THROW(action_profile(shape, vocab_backward), InputError);
}

}  // namespace
}  // namespace plumbline::action_memory_test
