// Allocations and frees of the passes of a split vocabulary, computed by hand from
// bench/training/vocabulary.md, and invariants of every schedule that has them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "analysis/memory/memory_model.hpp"
#include "analysis/step/parameters.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "core/base/error.hpp"
#include "schedules/passes.hpp"
#include "tests/analysis/memory/vocabulary_configs.hpp"

namespace plumbline::vocabulary_memory_test {
namespace {

using enum ActionType;
using sample::vocabulary_config;
using sample::vocabulary_schedule;
constexpr Category kParameters = Category::parameters;
constexpr Category kGradients = Category::gradients;
constexpr Category kActivations = Category::activations;
constexpr Category kLogits = Category::logits;
constexpr Category kCommunication = Category::communication;
constexpr Category kWorkspace = Category::workspace;

MemoryBreakdown bytes(std::initializer_list<std::pair<Category, std::int64_t>> parts) {
  MemoryBreakdown memory;
  for (const auto& [category, value] : parts) memory[category].value = value;
  return memory;
}

void expect_equal(const MemoryBreakdown& found, const MemoryBreakdown& expected, const char* what) {
  for (int i = 0; i < kCategories; ++i) {
    const auto category = static_cast<Category>(i);
    EXPECT_EQ(found[category].value, expected[category].value) << what << " " << name_of(category);
  }
}

// tiny_qwen2, one layer on each of two ranks, 32 tokens in two shards of v = 16. T·h = 32 elements: fp32 128
// bytes, bf16 64; logits 4·16 = 64 elements; statistics of the shards (3·2 + 1)·4·4 = 112; dX 32·4 =
// 128; a shard 16·8 = 128 elements, a multiple of 64·2. A layer in fp32 keeps 1600 without its y
// (action_memory_test).
struct ActionCase {
  const char* name;
  const char* method;
  int stage;
  ActionType type;
  bool with_extra;
  DType precision;
  int zero;
  MemoryBreakdown peak;
  MemoryBreakdown net;
};

std::vector<ActionCase> action_cases() {
  const char* const one = "vocab-2";
  const char* const two = "vocab-1";
  constexpr DType fp32 = DType::fp32;
  constexpr DType bf16 = DType::bf16;
  const auto same = [](const MemoryBreakdown& both) { return std::make_pair(both, both); };
  const auto make = [](const char* name, const char* method, int stage, ActionType type, bool with_extra,
                       DType precision, int zero, std::pair<MemoryBreakdown, MemoryBreakdown> expected) {
    return ActionCase{name,      method, stage,          type,           with_extra,
                      precision, zero,   expected.first, expected.second};
  };
  using Pair = std::pair<MemoryBreakdown, MemoryBreakdown>;
  return {
      make("IF of micro-batch 0 on the first rank: X(0) and x(0)", two, 0, input_forward, true, fp32, 0,
           same(bytes({{kActivations, 128 + 128}}))),
      make("IF of another on the first rank: x(m)", two, 0, input_forward, false, fp32, 0,
           same(bytes({{kActivations, 128}}))),
      make("IF on the last rank: into the held buffer", two, 1, input_forward, true, fp32, 0, same({})),
      make("IF, ZeRO 3: the embedding's shard is gathered first", two, 1, input_forward, false, bf16, 3,
           Pair{bytes({{kParameters, 256}}), {}}),
      make("F of the first stage: x is there; y is the send buffer", two, 0, forward, true, fp32, 0,
           same(bytes({{kActivations, 1600}}))),
      make("F of the last stage: y, final norm output and statistics, no logits", two, 1, forward, true, fp32,
           0, same(bytes({{kActivations, 1600 + 128 + 128 + 16}}))),
      make("S, two barriers: logits, statistics, X(m+1)", two, 0, vocab_forward, true, fp32, 0,
           same(bytes({{kLogits, 256}, {kWorkspace, 112}, {kActivations, 128}}))),
      make("S of the last micro-batch", two, 0, vocab_forward, false, fp32, 0,
           same(bytes({{kLogits, 256}, {kWorkspace, 112}}))),
      make("S on the last rank has X already", two, 1, vocab_forward, true, bf16, 0,
           same(bytes({{kLogits, 128}, {kWorkspace, 112}}))),
      make("S, one barrier: dX", one, 1, vocab_forward, true, bf16, 0,
           same(bytes({{kLogits, 128}, {kWorkspace, 112 + 128}}))),
      make("S, two barriers, ZeRO 3: the shard is gone before the statistics come", two, 1, vocab_forward,
           true, fp32, 3,
           Pair{bytes({{kParameters, 512}, {kLogits, 256}}), bytes({{kLogits, 256}, {kWorkspace, 112}})}),
      make("S, one barrier, ZeRO 3: the shard stays until the target rows are taken", one, 0, vocab_forward,
           true, fp32, 3,
           Pair{bytes({{kParameters, 512}, {kLogits, 256}, {kWorkspace, 112 + 128 + 128}}),
                bytes({{kLogits, 256}, {kWorkspace, 112 + 128 + 128}, {kActivations, 128}})}),
      make("T, two barriers: dX is a held buffer", two, 0, vocab_backward, true, fp32, 0,
           Pair{{}, bytes({{kLogits, -256}, {kWorkspace, -112}, {kActivations, -128}})}),
      make("T, two barriers, last rank: dX stays for its backward", two, 1, vocab_backward, true, bf16, 0,
           Pair{bytes({{kWorkspace, 128}}),
                bytes({{kLogits, -128}, {kWorkspace, 128 - 112}, {kActivations, -64}})}),
      make("T, one barrier: dX goes", one, 0, vocab_backward, true, fp32, 0,
           Pair{{}, bytes({{kLogits, -256}, {kWorkspace, -112 - 128}, {kActivations, -128}})}),
      make("T, one barrier, last rank: dX stays", one, 1, vocab_backward, true, fp32, 0,
           Pair{{}, bytes({{kLogits, -256}, {kWorkspace, -112}, {kActivations, -128}})}),
      make("T, ZeRO 2: the gradient after dX has gone; its piece after all else has", one, 0, vocab_backward,
           true, fp32, 2,
           Pair{bytes({{kGradients, 512}, {kWorkspace, -128}}),
                bytes({{kLogits, -256}, {kWorkspace, -112 - 128}, {kActivations, -128}})}),
      make("T, one barrier, ZeRO 3: target rows go too, nothing is gathered", one, 1, vocab_backward, true,
           fp32, 3,
           Pair{bytes({{kGradients, 512}, {kWorkspace, -128}}),
                bytes({{kLogits, -256}, {kWorkspace, -112 - 128}, {kActivations, -128}})}),
      make("T, two barriers, ZeRO 3: the shard, then its gradient", two, 1, vocab_backward, true, fp32, 3,
           Pair{bytes({{kParameters, 512}, {kWorkspace, 128}}),
                bytes({{kLogits, -256}, {kWorkspace, 128 - 112}, {kActivations, -128}})}),
      // G for dX; final input and statistics go; dact 256 for the activation output, dfc1 512; then the
      // layer.
      make("B of the last stage, fp32: dX is dnorm", two, 1, backward, true, fp32, 0,
           Pair{bytes({{kActivations, -144 - 256}, {kWorkspace, 768}}),
                bytes({{kActivations, -144 - 1728}, {kWorkspace, -128}})}),
      // dnorm 64 for dX 128, G 64, -64; the layer as above, in 16 bits: 832 and x 64.
      make("B of the last stage, bf16: dX is rounded into dnorm", one, 1, backward, true, bf16, 0,
           Pair{bytes({{kActivations, -80 - 128}, {kWorkspace, -64 + 128 + 256}}),
                bytes({{kActivations, -80 - 896}, {kWorkspace, -128}})}),
      make("B of the first stage keeps G", one, 0, backward, true, fp32, 0,
           Pair{bytes({{kActivations, -256}, {kWorkspace, 768}}), bytes({{kActivations, -1728}})}),
      make("IB of the first rank frees G", two, 0, input_backward, true, fp32, 0,
           Pair{{}, bytes({{kCommunication, -128}})}),
      make("IB elsewhere", two, 1, input_backward, true, fp32, 0, same({})),
      make("IB, ZeRO 2: gradient and piece while G is there", two, 0, input_backward, true, fp32, 2,
           Pair{bytes({{kGradients, 512 + 256}}), bytes({{kCommunication, -128}})}),
  };
}

TEST(VocabularyMemory, ActionsByHand) {
  for (const ActionCase& c : action_cases()) {
    SCOPED_TRACE(fmt::format("{}, {}", c.method, c.name));
    RunConfig config = vocabulary_config(c.method, 1, 2, 2, 2);
    config.model.embedding.tied = false;
    config.numerics.precision = c.precision;
    config.parallel.dp.zero_stage = c.zero;
    const auto shapes = stage_shapes(config, vocabulary_schedule(config));
    const ActionProfile profile =
        action_profile(shapes[static_cast<std::size_t>(c.stage)], c.type, c.with_extra);
    expect_equal(profile.peak, c.peak, "peak");
    expect_equal(profile.net, c.net, "net");
  }
}

TEST(VocabularyMemory, VShapedPlacementKeepsTheInputGradientInTheWorkspace) {
  RunConfig config = vocabulary_config("vocab-1", 1, 2, 1, 4);
  config.parallel.pp.schedule = "v-half";
  config.model.layers = 4;
  const auto shapes = stage_shapes(config, vocabulary_schedule(config));
  EXPECT_TRUE(shapes[0].vocabulary.first_rank && shapes[0].vocabulary.last_rank);
  EXPECT_FALSE(shapes[1].vocabulary.first_rank || shapes[1].vocabulary.last_rank);
  expect_equal(action_profile(shapes[0], input_backward).net, bytes({{kWorkspace, -128}}), "net");
  // The first rank has X from the last stage's F.
  expect_equal(action_profile(shapes[0], input_forward).net, bytes({{kActivations, 128}}), "net");
  EXPECT_THROW(action_profile(shapes[3], vocab_forward), InputError);
  EXPECT_THROW(action_profile(shapes[2], input_backward), InputError);
}

// Matrices of a layer 576 elements, vectors 2·8 norms + 16 qkv biases = 32; final norm 8. Shards 128 each.
TEST(VocabularyMemory, HeldByHand) {
  struct Case {
    const char* method;
    int rank;
    bool tied;
    std::int64_t parameters;     // elements
    std::int64_t communication;  // bytes in bf16
  };
  // A send buffer 64; not on the first rank 2·64; two barriers, not on the last rank, 2·128.
  const Case cases[] = {
      {"vocab-1", 0, false, 608 + 256, 64 + 256},   {"vocab-1", 1, false, 616 + 256, 64 + 128},
      {"vocab-2", 0, false, 608 + 256, 64},         {"vocab-2", 1, true, 616 + 128, 64 + 128},
      {"interlaced", 0, true, 608 + 128, 64 + 256},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} rank {}", c.method, c.rank));
    RunConfig config = vocabulary_config(c.method, 1, 2, 1, 3);
    config.numerics.precision = DType::bf16;
    config.model.embedding.tied = c.tied;
    const auto shapes = stage_shapes(config, vocabulary_schedule(config));
    const MemoryBreakdown held = held_bytes(shapes[static_cast<std::size_t>(c.rank)], config);
    EXPECT_EQ(held[kParameters].value, c.parameters * 2);
    EXPECT_EQ(held[kCommunication].value, c.communication);
    // Rotary tables 2·4·2, scratch as of attention, token ids and targets 2·3·4.
    const std::int64_t scratch = attention_scratch_elements(shapes[0]);
    EXPECT_EQ(held[kWorkspace].value, 4 * (16 + scratch + 24));
  }
}

std::int64_t held_parameters(const RunConfig& config) {
  std::int64_t sum = 0;
  for (const StageShape& shape : stage_shapes(config, vocabulary_schedule(config))) {
    sum += parameters_of(shape).total();
  }
  return sum;
}

// All ranks together hold the model once, and the padding.
TEST(VocabularyMemory, ShardsTogetherAreTheModel) {
  for (const char* method : {"none", "vocab-1", "vocab-2"}) {
    RunConfig config = vocabulary_config(method, 1, 4, 1, 4);
    config.model.layers = 8;
    config.model.vocab = 30;
    const std::int64_t layers_and_norm = 8 * (576 + 32) + 8;
    config.parallel.make_vocab_size_divisible_by = method == std::string("none") ? 32 : 8;
    for (const bool tied : {false, true}) {
      config.model.embedding.tied = tied;
      // Unsplit, tied embeddings lie on two ranks.
      const int tables = tied && method != std::string("none") ? 1 : 2;
      EXPECT_EQ(held_parameters(config), layers_and_norm + tables * 32 * 8) << method << tied;
    }
  }
}

// A last stage that is its end alone: G is the send buffer, or the previous stage's.
TEST(VocabularyMemory, LastStageWithoutLayersByHand) {
  RunConfig config = vocabulary_config("none", 1, 2, 1, 2);
  config.model.embedding.tied = false;
  config.parallel.pp.layer_distribution = "2,0";
  const Schedule schedule = vocabulary_schedule(config);
  StageShape last = stage_shapes(config, schedule)[1];
  // Final norm output 128, its input 128, statistics 16, logits 4·32·4.
  expect_equal(action_profile(last, forward).net, bytes({{kActivations, 144}, {kLogits, 512}}), "F");
  expect_equal(action_profile(last, backward).net, bytes({{kActivations, -272}, {kLogits, -512}}), "B");
  expect_equal(action_profile(last, backward).peak, bytes({{kWorkspace, 128}}), "B peak");
  expect_equal(action_profile(last, backward_input).net, bytes({{kActivations, -144}}), "I");
  expect_equal(action_profile(last, backward_weight).net, bytes({{kActivations, -128}, {kLogits, -512}}),
               "W");
  last.place.previous_here = true;
  expect_equal(action_profile(last, backward_input).net, bytes({{kActivations, -144}, {kCommunication, 128}}),
               "I with the previous stage");
  for (const char* method : {"none", "vocab-1", "vocab-2"}) {
    config.parallel.pp.vocab_parallel = parse_vocab_parallel(method);
    for (const RankMemory& rank :
         predict_memory(config, vocabulary_schedule(config), MemoryDetail::timeline).ranks) {
      expect_equal(rank.timeline.back().after, rank.held, method);
    }
  }
}

struct Walked {
  const char* method;
  const char* schedule;
};
constexpr Walked kWalked[] = {{"vocab-1", "1f1b"},
                              {"vocab-2", "1f1b"},
                              {"interlaced", "1f1b"},
                              {"vocab-1", "v-half"},
                              {"vocab-2", "v-half"}};

// Every allocation of one action is freed by another, on every rank and in every category, and nothing is
// freed before it is allocated.
TEST(VocabularyMemory, AStepEndsAsItBegan) {
  for (const Walked& walked : kWalked) {
    for (const int pipeline : {1, 2, 4}) {
      for (const int microbatches : {1, 2, 3, 8}) {
        for (const int zero : {0, 1, 2, 3}) {
          for (const bool tied : {false, true}) {
            RunConfig config = vocabulary_config(walked.method, 2, pipeline, 2, microbatches);
            config.parallel.pp.schedule = walked.schedule;
            config.model.layers = 8;
            config.model.embedding.tied = tied;
            config.parallel.dp.zero_stage = zero;
            config.numerics.precision = zero % 2 == 0 ? DType::bf16 : DType::fp32;
            const MemoryPrediction memory =
                predict_memory(config, vocabulary_schedule(config), MemoryDetail::timeline);
            for (const RankMemory& rank : memory.ranks) {
              SCOPED_TRACE(fmt::format("{} {} pp{} m{} zero{} tied{} rank {}", walked.method, walked.schedule,
                                       pipeline, microbatches, zero, tied, rank.rank));
              expect_equal(rank.timeline.back().after, rank.held, "after");
              for (const MemorySample& sample : rank.timeline) {
                for (int i = 0; i < kCategories; ++i) {
                  const auto category = static_cast<Category>(i);
                  ASSERT_GE(sample.after[category].value, rank.held[category].value) << name_of(category);
                }
              }
            }
          }
        }
      }
    }
  }
}

double spread(const RunConfig& config) {
  const MemoryPrediction memory = predict_memory(config, vocabulary_schedule(config));
  double least = 1e30;
  for (const RankMemory& rank : memory.ranks) {
    least = std::min(least, static_cast<double>(rank.peak.total().value));
  }
  return static_cast<double>(memory.peak.value) / least;
}

// The claim of arXiv:2411.05288: with large vocabularies peaks differ by a factor, split over the ranks
// hardly.
TEST(VocabularyMemory, FlatWhereTheBaselineIsNot) {
  const auto large = [](const char* method) {
    RunConfig config = vocabulary_config(method, 1, 4, 1, 16);
    ModelConfig& model = config.model;
    model.embedding.tied = false;
    model.layers = 8;
    model.hidden = 64;
    model.heads = 4;
    model.head_dim = 16;
    model.ffn = 256;
    model.vocab = 65536;
    config.batch.seq_length = 64;
    return config;
  };
  EXPECT_GT(spread(large("none")), 5);
  EXPECT_LT(spread(large("vocab-1")), 1.1);  // the rest: 1F1B has fewer micro-batches on later ranks
  EXPECT_LT(spread(large("vocab-2")), 1.1);
  RunConfig v_half = large("vocab-2");
  v_half.parallel.pp.schedule = "v-half";
  EXPECT_LT(spread(v_half), 1.05);
}

// 16-bit logits and an fp32 copy, whose softmax stays until its gradient has been rounded.
TEST(VocabularyMemory, AFrameworksPassesHoldWhatItsLossHolds) {
  RunConfig config = vocabulary_config("vocab-1", 1, 2, 1, 4);
  config.numerics.precision = DType::bf16;
  config.machine.software = "megatron-vocabulary";
  const StageShape shape = stage_shapes(config, vocabulary_schedule(config)).front();
  const std::int64_t logits = shape.stream.tokens * shape.ends.vocab;
  const ActionProfile scores = action_profile(shape, vocab_forward);
  expect_equal(scores.peak, bytes({{kLogits, 6 * logits}}), "S");
  expect_equal(scores.net, bytes({{kLogits, 4 * logits}}), "S");
  const ActionProfile gradient = action_profile(shape, vocab_backward);
  expect_equal(gradient.peak, bytes({{kLogits, 2 * logits}}), "T");
  expect_equal(gradient.net, bytes({{kLogits, -4 * logits}}), "T");
}

}  // namespace
}  // namespace plumbline::vocabulary_memory_test
