// The memory model against cases computed by hand and against published closed forms.
#include "analysis/memory/memory_model.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "analysis/step/parameters.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::memory_model_test {
namespace {

std::int64_t at(const MemoryBreakdown& memory, Category category) {
  return memory[category].value;
}

struct ParameterCase {
  const char* name;
  int tensor;
  int stages;
  int stage;
  bool gpt2;
  std::int64_t parameters;
};

// Qwen2 layer: norms 2·8, qkv (8+2·4)·8+16, projection 64, fc1 32·8, fc2 128 = 608; embedding 32·8.
// GPT-2 layer: norms 2·2·8, qkv 24·8+24, projection 64+8, fc1 16·8+16, fc2 128+8 = 600.
constexpr ParameterCase kParameterCases[] = {
    {"tied, one stage: the embedding is the output layer", 1, 1, 0, false, 2 * 608 + 256 + 8},
    {"first of two stages", 1, 2, 0, false, 608 + 256},
    {"last of two stages has a copy of the embedding", 1, 2, 1, false, 608 + 8 + 256},
    {"two tensor ranks share one key/value head", 2, 1, 0, false,
     2 * (16 + 12 * 8 + 12 + 32 + 128 + 64) + 128 + 8},
    {"learned positions and biases", 1, 1, 0, true, 2 * 600 + 256 + 64 * 8 + 16},
};

TEST(Shapes, ParametersOfAStage) {
  for (const ParameterCase& c : kParameterCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = c.gpt2 ? sample::tiny_gpt2() : sample::tiny_qwen2();
    config.parallel.tensor = c.tensor;
    config.parallel.world_size = c.tensor * c.stages;
    config.parallel.pipeline = c.stages;
    config.parallel.make_vocab_size_divisible_by = 32 / c.tensor;
    const auto shapes = stage_shapes(config, c.stages);
    EXPECT_EQ(parameters_of(shapes[static_cast<std::size_t>(c.stage)]).total(), c.parameters);
  }
}

TEST(MemoryModel, OneRankByHand) {
  const RunConfig config = sample::tiny_qwen2();
  const MemoryPrediction prediction = predict_memory(config, sample::one_rank(2));
  ASSERT_EQ(prediction.ranks.size(), 1U);
  const RankMemory& rank = prediction.ranks[0];
  const std::int64_t scratch = 4 * attention_scratch_elements(stage_shapes(config, 1)[0]);
  EXPECT_EQ(at(rank.held, Category::parameters), 1480 * 4);
  EXPECT_EQ(at(rank.held, Category::gradients), 1480 * 4);
  EXPECT_EQ(at(rank.held, Category::optimizer), 1480 * 8);
  EXPECT_EQ(at(rank.held, Category::communication), 0);
  EXPECT_EQ(at(rank.held, Category::workspace) - scratch, 4 * (2 * 4 * 2) + 2 * 4 * (2 * 4));
  // The largest moment: the output layer's input gradient with the logits.
  EXPECT_EQ(rank.at, "0B0");
  // x 128; per layer 144 + 256 + 160 + 128 + 144 + 512 + 256 + 128; final norm 144.
  EXPECT_EQ(at(rank.peak, Category::activations), 128 + 2 * 1728 + 144);
  EXPECT_EQ(at(rank.peak, Category::logits), 4 * 32 * 4);
  EXPECT_EQ(at(rank.peak, Category::workspace), at(rank.held, Category::workspace) + 128);
  EXPECT_EQ(prediction.peak, rank.peak.total());
}

// 8 heads of 64 of 4096 tokens, two for each key/value head. Gradients of queries twice, sums, keys and
// values together; gradients of scores, 32 MiB per query head, within 256 MiB.
TEST(MemoryModel, AttentionsScratchOfCudaFollowsDeterministicMode) {
  RunConfig config = sample::tiny_qwen2();
  config.model.heads = 8;
  config.model.kv_heads = 4;
  config.model.head_dim = 64;
  config.batch.seq_length = 4096;
  config.numerics.precision = DType::bf16;
  const auto scratch = [&](Backend backend, bool deterministic) {
    config.machine.backend = backend;
    config.numerics.deterministic_mode = deterministic;
    return attention_scratch_elements(stage_shapes(config, 1)[0]);
  };
  constexpr std::int64_t kHead = std::int64_t{4096} * 64;
  EXPECT_EQ(scratch(Backend::cuda, false), 8 * (3 * kHead + 4096) + 512);
  EXPECT_EQ(scratch(Backend::cuda, true), 8 * (std::int64_t{4096} * 4096 / 2 + kHead + 4096) + 512);
  EXPECT_EQ(scratch(Backend::cpu, false), scratch(Backend::cpu, true));
  EXPECT_EQ(scratch(Backend::cpu, true), scratch(Backend::emulated, true));
}

TEST(MemoryModel, WideFeedForwardMovesThePeakIntoALayer) {
  RunConfig config = sample::tiny_qwen2();
  config.model.ffn = 64;
  config.model.layers = 1;
  const RankMemory rank = predict_memory(config, sample::one_rank(2)).ranks[0];
  // At dfc1: activations x 128, norm 144, qkv 256, attention 160, x2 128, norm 144, fc1 2048 (the activation
  // output is gone); workspace G 128 + dact 1024 + dfc1 2048.
  EXPECT_EQ(at(rank.peak, Category::activations), 128 + 144 + 256 + 160 + 128 + 144 + 2048);
  EXPECT_EQ(at(rank.peak, Category::logits), 0);
  EXPECT_EQ(at(rank.peak, Category::workspace) - at(rank.held, Category::workspace), 128 + 1024 + 2048);
}

TEST(MemoryModel, PipelineByHand) {
  RunConfig config = sample::tiny_gpt2();
  config.parallel.world_size = 2;
  config.parallel.pipeline = 2;
  config.numerics.precision = DType::bf16;
  const MemoryPrediction prediction = predict_memory(config, sample::two_ranks());
  ASSERT_EQ(prediction.ranks.size(), 2U);
  const RankMemory& first = prediction.ranks[0];
  const RankMemory& last = prediction.ranks[1];
  constexpr std::int64_t stream = std::int64_t{4} * 8 * 2;
  EXPECT_EQ(at(first.held, Category::parameters), (600 + 256 + 512) * 2);
  EXPECT_EQ(at(first.held, Category::gradients), (600 + 256 + 512) * 4);
  EXPECT_EQ(at(first.held, Category::optimizer), (600 + 256 + 512) * 12);
  EXPECT_EQ(at(first.held, Category::communication), stream);
  EXPECT_EQ(at(last.held, Category::communication), stream);
  EXPECT_EQ(at(last.held, Category::parameters), (600 + 16 + 256) * 2);
  // The layer keeps norm 96, qkv 192, attention 64 + 32, x2 64, norm 96, fc1 128, activation 128 = 800; the
  // last layer's output is the send buffer on the first stage.
  const std::int64_t layer = 96 + 192 + 96 + 64 + 96 + 128 + 128;
  // First stage, two micro-batches in flight and a received gradient, at the first layer-wide transient of
  // 0B0: dact.
  EXPECT_EQ(first.at, "0B0");
  EXPECT_EQ(at(first.peak, Category::activations), 2 * (stream + layer));
  EXPECT_EQ(at(first.peak, Category::communication), 2 * stream);
  EXPECT_EQ(at(first.peak, Category::workspace) - at(first.held, Category::workspace), 128);
  // Last stage: one in flight, received input included; the output gradient with the logits.
  EXPECT_EQ(last.at, "1B0");
  EXPECT_EQ(at(last.peak, Category::activations), stream + layer + stream + 96);
  EXPECT_EQ(at(last.peak, Category::logits), 4 * 32 * 2);
  EXPECT_EQ(at(last.peak, Category::workspace) - at(last.held, Category::workspace), stream);
}

TEST(MemoryModel, EveryWorldRankIsKnownInMegatronOrder) {
  RunConfig config = sample::tiny_qwen2();
  config.parallel.world_size = 8;
  config.parallel.tensor = 2;
  config.parallel.pipeline = 2;
  config.batch.global_batch_size = 4;
  const MemoryPrediction prediction = predict_memory(config, sample::two_ranks());
  ASSERT_EQ(prediction.ranks.size(), 2U);
  EXPECT_EQ(prediction.ranks_alike, 4);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(prediction.of_rank(rank).pipeline_rank, rank / 4);
    EXPECT_EQ(prediction.of_rank(rank).rank, rank / 4 * 4);
  }
}

constexpr Category kParameters = Category::parameters;
constexpr Category kGradients = Category::gradients;

// Two layers of 576 matrix elements, padded to 640, an embedding of 256; vectors 2·(16+16) + 8 = 72.
TEST(MemoryModel, ZeroHoldsPaddedUnitsAndWholeVectors) {
  struct Case {
    int zero;
    std::int64_t parameters, gradients, optimizer;  // elements; fp32, Adam
  };
  constexpr Case kCases[] = {
      {0, 1480, 1480, 1480}, {1, 1608, 1608, 840}, {2, 1608, 840, 840}, {3, 840, 840, 840}};
  RunConfig config = sample::tiny_qwen2();
  config.parallel.world_size = 2;
  config.batch.global_batch_size = 4;
  for (const Case& c : kCases) {
    config.parallel.dp.zero_stage = c.zero;
    const RankMemory rank = predict_memory(config, sample::one_rank(2)).of_rank(1);
    EXPECT_EQ(at(rank.held, kParameters), c.parameters * 4) << c.zero;
    EXPECT_EQ(at(rank.held, kGradients), c.gradients * 4) << c.zero;
    EXPECT_EQ(at(rank.held, Category::optimizer), c.optimizer * 8) << c.zero;
  }
  config.parallel.world_size = 1;
  EXPECT_EQ(at(predict_memory(config, sample::one_rank(2)).ranks[0].held, kParameters), 1480 * 4)
      << "one replica has nothing to shard";
}

// The embedding is the output layer: final where its own gradient is added, after the layers. Pieces: layer
// 640/2·4 = 1280, embedding 256/2·4 = 512; never two at once, the last one until ARG.
TEST(MemoryModel, ZeroOnePiecesComeWithTheLastMicroBatch) {
  RunConfig config = sample::tiny_qwen2();
  config.parallel.world_size = 2;
  config.batch.global_batch_size = 4;
  config.parallel.dp.zero_stage = 1;
  const RankMemory rank = predict_memory(config, sample::one_rank(2), MemoryDetail::timeline).ranks[0];
  ASSERT_EQ(rank.timeline.size(), 6U);  // F B F B ARG OPT
  EXPECT_EQ(rank.timeline[1].after, rank.held);
  MemoryBreakdown pending = rank.held;
  pending[kGradients].value += 512;
  EXPECT_EQ(rank.timeline[3].after, pending);
  EXPECT_EQ(rank.timeline[4].peak, pending);
  EXPECT_EQ(rank.timeline[4].after, rank.held);
  EXPECT_EQ(rank.timeline[5].after, rank.held);
}

// 608 elements per layer, embedding 256, final norm 8. A rank sends forward from the stage whose next is
// elsewhere and backward from the one whose previous is: 128 bytes each.
TEST(MemoryModel, SeveralStagesOnARank) {
  struct Case {
    const char* name;
    int routes;
    std::int64_t layers;
    bool tied;
    std::int64_t parameters[2];  // elements by rank
    std::int64_t token_ids[2];   // in units of M·T = 8; the rotary tables have 2·4·2 = 16 elements
  };
  constexpr Case kCases[] = {
      {"V: the last stage uses the first one's embedding", 1, 4, true, {1480, 1216}, {2, 0}},
      {"V, untied", 1, 4, false, {1480 + 256, 1216}, {2, 0}},
      {"two routes: each rank has a first and a last stage", 2, 2, true, {1480, 1480}, {2, 2}},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    RunConfig config = sample::tiny_qwen2();
    config.model.layers = c.layers;
    config.model.embedding.tied = c.tied;
    config.parallel.world_size = config.parallel.pipeline = 2;
    Schedule schedule;
    schedule.ranks = 2;
    schedule.stages = 4;
    schedule.routes = c.routes;
    schedule.rank_of_stage = {0, 1, 1, 0};
    schedule.actions.resize(2);
    const MemoryPrediction prediction = predict_memory(config, schedule);
    const std::int64_t scratch = attention_scratch_elements(stage_shapes(config, 2)[0]);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const MemoryBreakdown& held = prediction.ranks[rank].held;
      EXPECT_EQ(at(held, kParameters), c.parameters[rank] * 4);
      EXPECT_EQ(at(held, Category::communication), 2 * 128);
      EXPECT_EQ(at(held, Category::workspace), 4 * (16 + c.token_ids[rank] * 8 + scratch));
    }
  }
}

// Two stages of one layer on one rank, a split backward. The shared embedding is final after the later of its
// two uses: the output layer's W or the embedding's I.
TEST(MemoryModel, ASharedEmbeddingIsFinalAfterItsLaterUse) {
  using enum ActionType;
  constexpr std::int64_t kLayer = 1280;
  constexpr std::int64_t kEmbedding = 512;
  struct Case {
    const char* name;
    std::vector<Action> backward;
    std::vector<std::int64_t> under_way;  // bytes of the piece after each of them
  };
  const std::vector<Case> cases = {
      {"W last",
       {{backward_input, false, 1},
        {backward_input, false, 0},
        {backward_weight, false, 0},
        {backward_weight, false, 1}},
       {0, 0, kLayer, kLayer}},
      {"I last",
       {{backward_input, false, 1},
        {backward_weight, false, 1},
        {backward_input, false, 0},
        {backward_weight, false, 0}},
       {0, kLayer, kEmbedding, kLayer}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    RunConfig config = sample::tiny_qwen2();
    config.parallel.world_size = 2;
    config.parallel.dp.zero_stage = 1;
    Schedule schedule;
    schedule.stages = 2;
    schedule.rank_of_stage = {0, 0};
    schedule.actions = {{{forward, false, 0}, {forward, false, 1}}};
    std::vector<Action>& actions = schedule.actions[0];
    actions.insert(actions.end(), c.backward.begin(), c.backward.end());
    actions.push_back({reduce_gradients, false, 0});
    const RankMemory rank = predict_memory(config, schedule, MemoryDetail::timeline).ranks[0];
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(at(rank.timeline[2 + i].after, kGradients) - at(rank.held, kGradients), c.under_way[i]) << i;
    }
    EXPECT_EQ(rank.timeline.back().after, rank.held);
  }
}

TEST(MemoryModel, LongScheduleIsALinearWalk) {
  RunConfig config = sample::tiny_qwen2();
  config.batch.global_batch_size = 200'000;
  const MemoryPrediction prediction = predict_memory(config, sample::one_rank(200'000));
  EXPECT_GT(prediction.peak.value, 0);
}

}  // namespace
}  // namespace plumbline::memory_model_test
