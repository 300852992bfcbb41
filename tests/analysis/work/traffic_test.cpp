// Messages of a step, computed by hand.
#include <gtest/gtest.h>

#include "tests/analysis/memory/vocabulary_configs.hpp"
#include "tests/analysis/work/traffic_steps.hpp"

namespace plumbline::traffic_test {

namespace {

// tiny_qwen2: T·h = 32 elements, fp32. A layer's matrices: qkv 16·8, projection 64, fc1 32·8, fc2 128 =
// 576 elements; embedding 32·8 = 256; vectors: norms 2·2·8 + 8, qkv biases 2·16 = 72.
constexpr std::int64_t kLoss = std::int64_t{3} * 4 * 4;

struct Case {
  const char* name;
  int tensor, data, zero;
  bool sequence_parallel;
  Recompute recompute;
  std::int64_t group_layers;
  Group group;
  GroupTraffic expected;  // per step of two micro-batches
  int secondary_shards = 1;
  int instances = 1;
};

std::vector<Case> cases() {
  using enum Recompute;
  const auto bytes = [](std::int64_t n) { return Bytes{n}; };
  // Two micro-batches; per micro-batch tensor-parallel: embedding, two per layer forward, output layer, two
  // per layer backward; loss twice.
  const GroupTraffic all_reduces{2 * 12, bytes(2 * (10 * kStream + kLoss)), {}, {}, {}};
  // Gathers: 2 per layer forward, final norm, 4 per layer backward, final norm, embedding's gradient = 15.
  // Scatters: embedding, 2 per layer forward, output layer, 2 per layer backward = 10. OPT: 40 norm weights.
  const GroupTraffic sequence{
      2 * 27 + 1, bytes(2 * kLoss + 160), bytes(2 * 15 * kStream), bytes(2 * 10 * kStream), {}};
  // Layers again: 2 gathers and 1 scatter per layer, in groups of two one scatter more.
  const GroupTraffic again{
      2 * 33 + 1, bytes(2 * kLoss + 160), bytes(2 * 19 * kStream), bytes(2 * 12 * kStream), {}};
  const GroupTraffic again_in_twos{
      2 * 34 + 1, bytes(2 * kLoss + 160), bytes(2 * 19 * kStream), bytes(2 * 13 * kStream), {}};
  // Units padded to multiples of 128: 256, 640, 640. The embedding is used, and reduced, twice.
  const std::int64_t units = 4 * (256 + 2 * 640);
  const std::int64_t uses = units + 4 * 256;
  const Bytes vectors{4 * 72};
  const GroupTraffic norm{1, bytes(4), {}, {}, {}};
  const GroupTraffic heads{4, bytes(2 * 4 * (8 * 8 + 8)), {}, {}, {}};
  const GroupTraffic bucket{2, bytes(4 * (256 + 2 * 576) + vectors.value), {}, {}, {}};
  const GroupTraffic zero1{3 + 3 + 1, vectors, bytes(units), bytes(units), {}};
  const GroupTraffic zero2{2 * 4 + 3 + 1, vectors, bytes(units), bytes(2 * uses), {}};
  const GroupTraffic zero3{2 * (4 + 3 + 4) + 1, vectors, bytes(2 * (uses + units)), bytes(2 * uses), {}};
  GroupTraffic once_more = zero3;
  once_more.calls += 2;
  once_more.all_gathered.value += std::int64_t{2} * 4 * 640;
  // Four ranks: 256, 768, 768. Every unit once from all, all other uses among two.
  const std::int64_t of_four = 4 * (256 + 2 * 768);
  const std::int64_t first_of_four = of_four;
  const std::int64_t used_by_four = of_four + 4 * 256;
  const GroupTraffic first_uses{3 + 2 * 4 + 1, vectors, bytes(first_of_four), bytes(2 * used_by_four), {}};
  const GroupTraffic later_uses{
      (4 - 3) + 4 + 2 * 3, {}, bytes(2 * (used_by_four + of_four) - first_of_four), {}, {}};
  GroupTraffic later_and_again = later_uses;
  later_and_again.calls += 2;
  later_and_again.all_gathered.value += std::int64_t{2} * 4 * 768;
  // Four ranks in two instances: units as of two ranks, whose halves are summed between instances.
  const GroupTraffic vectors_alone{1, vectors, {}, {}, {}};
  const GroupTraffic instance1{3 + 3, {}, bytes(units), bytes(units), {}};
  const GroupTraffic between1{3, bytes(units / 2), {}, {}, {}};
  const GroupTraffic instance3{2 * (4 + 3 + 4), {}, bytes(2 * (uses + units)), bytes(2 * uses), {}};
  const GroupTraffic between3{2 * 4, bytes(uses), {}, {}, {}};
  // Four instances of one rank: multiples of 64, nothing within an instance.
  const GroupTraffic between_four{3, bytes(4 * (256 + 2 * 576)), {}, {}, {}};
  return {
      {"tensor parallel", 2, 1, 0, false, none, 1, Group::tensor, all_reduces},
      {"selective recomputation sends nothing", 2, 1, 0, false, selective, 1, Group::tensor, all_reduces},
      {"sequence parallel", 2, 1, 0, true, none, 1, Group::tensor, sequence},
      {"sequence parallel, layers again", 2, 1, 0, true, full, 1, Group::tensor, again},
      {"sequence parallel, two layers again", 2, 1, 0, true, full, 2, Group::tensor, again_in_twos},
      {"gradient norm", 2, 1, 0, false, none, 1, Group::model, norm},
      {"key and value rows of both layers, and biases", 2, 1, 0, false, none, 1, Group::shared_kv, heads},
      {"a group of one is not counted", 2, 1, 0, false, none, 1, Group::data, {}},
      {"one bucket and the vectors", 1, 2, 0, false, none, 1, Group::data, bucket},
      {"ZeRO-1", 1, 2, 1, false, none, 1, Group::data, zero1},
      {"ZeRO-1: the norm goes to everybody", 1, 2, 1, false, none, 1, Group::world, norm},
      {"ZeRO-2 reduces each micro-batch", 1, 2, 2, false, none, 1, Group::data, zero2},
      {"ZeRO-3 gathers forward and backward", 1, 2, 3, false, none, 1, Group::data, zero3},
      {"ZeRO-3, layer by layer again: two uses are one", 1, 2, 3, false, full, 1, Group::data, zero3},
      {"ZeRO-3, two layers again: one gather more", 1, 2, 3, false, full, 2, Group::data, once_more},
      {"secondary shards: first uses", 1, 4, 3, false, none, 1, Group::data, first_uses, 2},
      {"secondary shards: later uses", 1, 4, 3, false, none, 1, Group::zero_param, later_uses, 2},
      {"secondary shards: two layers again", 1, 4, 3, false, full, 2, Group::zero_param, later_and_again, 2},
      {"no secondary shards", 1, 4, 3, false, none, 1, Group::zero_param, {}},
      {"instances: vectors", 1, 4, 1, false, none, 1, Group::data, vectors_alone, 1, 2},
      {"instances, ZeRO-1", 1, 4, 1, false, none, 1, Group::optimizer_instance, instance1, 1, 2},
      {"between instances, ZeRO-1", 1, 4, 1, false, none, 1, Group::between_instances, between1, 1, 2},
      {"instances, ZeRO-3", 1, 4, 3, false, none, 1, Group::optimizer_instance, instance3, 1, 2},
      {"between instances, ZeRO-3", 1, 4, 3, false, none, 1, Group::between_instances, between3, 1, 2},
      {"between instances, ZeRO-2", 1, 4, 2, false, none, 1, Group::between_instances, between3, 1, 2},
      {"instances of one rank", 1, 4, 1, false, none, 1, Group::optimizer_instance, {}, 1, 4},
      {"between instances of one rank", 1, 4, 1, false, none, 1, Group::between_instances, between_four, 1,
       4},
      {"no instances", 1, 4, 1, false, none, 1, Group::between_instances, {}},
  };
}

TEST(Traffic, CollectivesByHand) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    RunConfig config = with(sample::tiny_qwen2(), c.tensor, 1, c.data, 2);
    config.parallel.dp.zero_stage = c.zero;
    config.parallel.dp.hpz_partition_size = c.secondary_shards;
    config.parallel.dp.optimizer_instances = c.instances;
    config.parallel.sequence_parallel = c.sequence_parallel;
    config.recompute.granularity = c.recompute;
    config.recompute.num_layers = c.group_layers;
    const auto ranks = predict_traffic(config, schedule_of(config, "1f1b"));
    ASSERT_EQ(ranks.size(), static_cast<std::size_t>(c.tensor * c.data));
    for (const Traffic& traffic : ranks) {
      EXPECT_EQ(traffic.of(c.group), c.expected);
      EXPECT_EQ(traffic.messages_sent, 0);
    }
  }
}

TEST(Traffic, SixteenBitSumsAreHalfAsLarge) {
  RunConfig config = with(sample::tiny_qwen2(), 2, 1, 1, 1);
  config.numerics.precision = DType::bf16;
  for (const bool sequence : {false, true}) {
    config.parallel.sequence_parallel = sequence;
    config.parallel.tp.reduce_in_fp32 = true;
    const GroupTraffic wide = predict_traffic(config, schedule_of(config, "1f1b"))[0].of(Group::tensor);
    config.parallel.tp.reduce_in_fp32 = false;
    const GroupTraffic half = predict_traffic(config, schedule_of(config, "1f1b"))[0].of(Group::tensor);
    // Nine sums: two per layer and direction, one of the output layer.
    Bytes GroupTraffic::*const sums = sequence ? &GroupTraffic::reduce_scattered : &GroupTraffic::all_reduced;
    EXPECT_EQ(((wide.*sums) - (half.*sums)).value, 9 * kStream / 2);
    EXPECT_EQ(wide.calls, half.calls);
  }
}

TEST(Traffic, KeyValueRowsFollowTheirOwner) {
  // t = 2, D = 2, Z = 1: per tensor rank the layer's unit is qkv (4+2·4)·8, projection 32, fc1 128, fc2 64
  // = 320 elements padded to 384: pieces of 192. Key and value rows are elements 32 to 96: all of the first
  // piece.
  RunConfig config = with(sample::tiny_qwen2(), 2, 1, 2, 1);
  config.parallel.dp.zero_stage = 1;
  const auto ranks = predict_traffic(config, schedule_of(config, "1f1b"));
  const Layout layout = config.layout();
  for (int rank = 0; rank < layout.world(); ++rank) {
    const bool owner = layout.coordinates(rank).data == 0;
    const GroupTraffic expected{owner ? 4 : 2, {2 * 4 * (owner ? 72 : 8)}, {}, {}, {}};
    EXPECT_EQ(ranks[static_cast<std::size_t>(rank)].of(Group::shared_kv), expected) << rank;
  }
}

struct PipelineCase {
  const char* schedule;
  int pipeline, microbatches, stages;
  std::int64_t messages;  // of all ranks; every hop between ranks once per micro-batch and direction
};
constexpr PipelineCase kPipelineCases[] = {
    {"1f1b", 2, 4, 2, 2 * 4 * 1},      {"gpipe", 4, 4, 4, 2 * 4 * 3},    {"interleaved", 2, 4, 4, 2 * 4 * 3},
    {"zb-h1", 4, 8, 4, 2 * 8 * 3},     {"zb-v", 2, 4, 4, 2 * 4 * 2},  // stages 1 and 2 are on one rank
    {"dualpipev", 2, 4, 4, 2 * 4 * 2}, {"dualpipe", 4, 8, 8, 2 * 8 * 3},
};

TEST(Traffic, Messages) {
  for (const PipelineCase& c : kPipelineCases) {
    SCOPED_TRACE(c.schedule);
    RunConfig config = sample::tiny_qwen2();
    config.model.layers = 8;
    config = with(config, 2, c.pipeline, 1, c.microbatches);
    for (const bool sequence : {false, true}) {
      config.parallel.sequence_parallel = sequence;
      const Schedule schedule = schedule_of(config, c.schedule);
      ASSERT_EQ(schedule.stages, c.stages);
      const std::int64_t size = sequence ? kStream / 2 : kStream;
      std::int64_t messages = 0;
      std::int64_t bytes = 0;
      for (const Traffic& traffic : predict_traffic(config, schedule)) {
        messages += traffic.messages_sent;
        bytes += traffic.point_to_point_sent.value;
      }
      EXPECT_EQ(messages, 2 * c.messages);  // both tensor ranks
      EXPECT_EQ(bytes, 2 * c.messages * size);
      // The same without explicit transfers.
      std::int64_t implied = 0;
      for (const Traffic& traffic : predict_traffic(config, drop_transfers(schedule))) {
        implied += traffic.messages_sent;
      }
      EXPECT_EQ(implied, messages);
    }
  }
}

TEST(Traffic, CopiesOfTheEmbeddingAndOfTheModel) {
  RunConfig config = with(sample::tiny_qwen2(), 1, 2, 1, 4);
  for (const Traffic& traffic : predict_traffic(config, schedule_of(config, "1f1b"))) {
    EXPECT_EQ(traffic.of(Group::embedding), (GroupTraffic{1, {4 * 256}, {}, {}, {}}));
    EXPECT_EQ(traffic.of(Group::mirror), GroupTraffic{});
  }
  // Two routes over two ranks: each holds both stages, three units of 2·576 + 256
  // elements and 72 elements of vectors in two calls.
  for (const Traffic& traffic : predict_traffic(config, schedule_of(config, "dualpipe"))) {
    EXPECT_EQ(traffic.of(Group::embedding), GroupTraffic{});
    EXPECT_EQ(traffic.of(Group::mirror), (GroupTraffic{5, {4 * (2 * 576 + 256 + 72)}, {}, {}, {}}));
  }
}

// Two tensor and two pipeline ranks, one layer each, two micro-batches, whole buffers: C0, C2, I1 and I2 move
// T·h, C1 three rows of T for each of the four shards. Nothing of embedding, output layer or loss is left
// for the tensor group: two all-reduces per layer and direction.
TEST(Traffic, SplitVocabulary) {
  for (const char* method : {"vocab-1", "vocab-2"}) {
    for (const bool tied : {false, true}) {
      RunConfig config = sample::vocabulary_config(method, 2, 2, 1, 2);
      config.model.embedding.tied = tied;
      const std::vector<Traffic> ranks = predict_traffic(config, sample::vocabulary_schedule(config));
      ASSERT_EQ(ranks.size(), 4U);
      const Bytes twice{2 * kStream};
      for (const Traffic& rank : ranks) {
        EXPECT_EQ(rank.of(Group::vocab_hidden), (GroupTraffic{2, {}, {}, {}, twice}));
        EXPECT_EQ(rank.of(Group::vocab_statistics), (GroupTraffic{2, {}, {2 * 4 * kLoss}, {}, {}}));
        EXPECT_EQ(rank.of(Group::vocab_gradient), (GroupTraffic{2, twice, {}, {}, {}}));
        EXPECT_EQ(rank.of(Group::embedding_output), (GroupTraffic{2, twice, {}, {}, {}}));
        EXPECT_EQ(rank.of(Group::embedding_gradient), (GroupTraffic{2, {}, {}, {}, twice}));
        EXPECT_EQ(rank.of(Group::tensor), (GroupTraffic{2 * 4, {2 * 4 * kStream}, {}, {}, {}}));
        EXPECT_EQ(rank.of(Group::embedding), GroupTraffic{});
        EXPECT_EQ(rank.messages_sent, 2);
      }
    }
  }
  // One rank moves nothing.
  const RunConfig alone = sample::vocabulary_config("vocab-1", 1, 1, 1, 2);
  const std::vector<Traffic> one = predict_traffic(alone, sample::vocabulary_schedule(alone));
  for (const GroupTraffic& group : one.front().groups) EXPECT_EQ(group.calls, 0);
}

}  // namespace
}  // namespace plumbline::traffic_test
