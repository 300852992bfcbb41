// Messages of a step against the closed forms of the papers, and against the same step arranged otherwise.
#include <gtest/gtest.h>

#include <optional>

#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/parameter_units.hpp"
#include "tests/analysis/work/traffic_steps.hpp"

namespace plumbline::traffic_forms_test {
namespace {

TEST(TrafficForms, OverlapMovesAsManyBytesInBlocks) {
  // Per layer F 2 gathers and 2 sums, B 2 gathers in t pieces each.
  for (const int tensor : {2, 4}) {
    for (const bool split : {false, true}) {
      SCOPED_TRACE(testing::Message() << "t = " << tensor << ", split backward " << split);
      RunConfig config = sample::tiny_gpt2();
      config.model.heads = config.model.kv_heads = 4;
      config = with(config, tensor, 1, 1, 1);
      config.parallel.sequence_parallel = true;
      const auto of = [&] {
        const Schedule schedule = schedule_of(config, "1f1b");
        return predict_traffic(config, split ? split_backward(schedule) : schedule)[0].of(Group::tensor);
      };
      const GroupTraffic without = of();
      config.parallel.tp.comm_overlap = true;
      const GroupTraffic with = of();
      const std::int64_t layers = config.model.layers;
      EXPECT_EQ(with.all_gathered + with.broadcast, without.all_gathered);
      EXPECT_EQ(with.broadcast.value, layers * 4 * kStream);
      EXPECT_EQ(with.reduce_scattered, without.reduce_scattered);
      EXPECT_EQ(with.all_reduced, without.all_reduced);
      EXPECT_EQ(with.calls - without.calls, layers * (split ? 8 : 6) * (tensor - 1));
      config.parallel.tp.comm_overlap = false;
    }
  }
}

TEST(TrafficForms, DataParallelOverlapMovesTheSame) {
  for (const int zero : {0, 1, 2, 3}) {
    RunConfig config = with(sample::tiny_qwen2(), 1, 2, 2, 4);
    config.parallel.dp.zero_stage = zero;
    std::optional<GroupTraffic> first;
    for (const bool reduces : {false, true}) {
      for (const bool gathers : {false, true}) {
        config.parallel.dp.overlap_grad_reduce = reduces;
        config.parallel.dp.overlap_param_gather = gathers;
        const GroupTraffic traffic = predict_traffic(config, schedule_of(config, "1f1b"))[0].of(Group::data);
        if (!first) first = traffic;
        EXPECT_EQ(traffic, *first) << "ZeRO-" << zero << ", " << reduces << gathers;
      }
    }
  }
}

TEST(TrafficForms, SplitBackwardSendsTwoGathersMore) {
  // I and W together gather each of dy and dmid twice (six per layer instead of four).
  RunConfig config = with(sample::tiny_qwen2(), 2, 2, 1, 4);
  config.parallel.sequence_parallel = true;
  config.model.embedding.tied = false;
  const auto whole = predict_traffic(config, schedule_of(config, "1f1b"));
  const auto split = predict_traffic(config, split_backward(schedule_of(config, "1f1b")));
  for (std::size_t rank = 0; rank < whole.size(); ++rank) {
    GroupTraffic expected = whole[rank].of(Group::tensor);
    expected.calls += 4 * 2;
    expected.all_gathered.value += 4 * 2 * kStream;
    EXPECT_EQ(split[rank].of(Group::tensor), expected);
  }
}

/// An untied model whose units need no padding at D ≤ 4.
RunConfig without_padding(int data, int microbatches) {
  RunConfig config = sample::tiny_qwen2();
  config.model.embedding.tied = false;
  config.model.hidden = 32;
  config.model.heads = config.model.kv_heads = 8;
  return with(config, 1, 1, data, microbatches);
}

TEST(TrafficForms, DataParallelClosedForms) {
  constexpr int kMicrobatches = 3;
  for (const int data : {2, 4}) {
    for (const int zero : {0, 1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << "D = " << data << ", Z = " << zero);
      RunConfig config = without_padding(data, kMicrobatches);
      config.parallel.dp.zero_stage = zero;
      const auto shapes = stage_shapes(config, 1);
      std::int64_t matrices = 0;
      for (const ParameterUnit& unit : units_of(shapes[0])) {
        ASSERT_EQ(unit.padded, unit.elements);
        matrices += unit.elements;
      }
      const double share = static_cast<double>(data - 1) / data;
      const auto vectors = static_cast<double>(vectors_of(shapes[0]).total());
      const auto embedding = static_cast<double>(config.padded_vocab() * config.model.hidden);
      double expected = data_parallel_ring_elements(zero, static_cast<double>(matrices), data, kMicrobatches);
      expected += 2 * vectors * share;                               // all-reduced whole
      if (zero == 3) expected -= kMicrobatches * embedding * share;  // no use in the backward
      const Traffic traffic = predict_traffic(config, schedule_of(config, "1f1b")).front();
      EXPECT_DOUBLE_EQ(ring_bytes(traffic.of(Group::data), data) / 4, expected);
    }
  }
}

TEST(TrafficForms, TensorParallelClosedForms) {
  // Two models that differ by one layer differ by the closed form.
  for (const int tensor : {2, 4}) {
    for (const bool sequence : {false, true}) {
      SCOPED_TRACE(testing::Message() << "t = " << tensor << ", SP " << sequence);
      double bytes[2];
      for (const std::int64_t layers : {2, 3}) {
        RunConfig config = sample::tiny_gpt2();
        config.model.heads = config.model.kv_heads = 4;
        config.model.layers = layers;
        config = with(config, tensor, 1, 1, 1);
        config.parallel.sequence_parallel = sequence;
        Schedule schedule = schedule_of(config, "1f1b");
        schedule.actions[0].pop_back();  // OPT
        bytes[layers - 2] = ring_bytes(predict_traffic(config, schedule)[0].of(Group::tensor), tensor);
      }
      EXPECT_DOUBLE_EQ((bytes[1] - bytes[0]) / 4, tensor_parallel_ring_elements(sequence, 32, tensor));
    }
  }
}

/// Bytes that a rank sends per layer and micro-batch: forward round a ring or gathered 4·L·k·d·(CP-1) in
/// 16-bit numbers, L = s/CP tokens and k heads of keys, backward twice that; exchanged 4·L·(a +
/// k)·d·(CP-1)/CP each way. With a2a+p2p both by their sizes.
TEST(TrafficForms, OfContextRanksFollowsTheFormulas) {
  for (const int ranks : {2, 4, 8}) {
    RunConfig config = with(sample::tiny_qwen2(), 1, 1, 1, 1);
    config.model.kv_heads = 8;
    config.model.heads = 16;
    config.numerics.precision = DType::bf16;
    config.batch.seq_length = 64;
    config.batch.micro_batch_size = config.batch.global_batch_size = 3;
    config.parallel.world_size = config.parallel.context = ranks;
    const std::int64_t keys = 3 * 64 / ranks * config.model.kv_heads * config.model.head_dim;
    const std::int64_t queries = 3 * 64 / ranks * config.model.heads * config.model.head_dim;
    const std::int64_t layers = config.model.layers;
    const auto traffic = [&](CpCommType type) {
      config.parallel.cp.comm_type = type;
      return predict_traffic(config, schedule_of(config, "1f1b")).front();
    };
    const Traffic ring = traffic(CpCommType::p2p);
    EXPECT_EQ(ring.messages_sent, layers * 3 * (ranks - 1));
    EXPECT_EQ(ring.point_to_point_sent.value, layers * 3 * 4 * keys * (ranks - 1));
    EXPECT_EQ(ring.of(Group::context).calls, 0);
    const GroupTraffic gathered = traffic(CpCommType::all_gather).of(Group::context);
    const std::int64_t sent = (gathered.all_gathered + gathered.reduce_scattered).value / ranks * (ranks - 1);
    EXPECT_EQ(sent, ring.point_to_point_sent.value);
    const GroupTraffic exchanged = traffic(CpCommType::a2a).of(Group::context);
    EXPECT_EQ(exchanged.calls, layers * 4);
    EXPECT_EQ(exchanged.exchanged.value, layers * 2 * 4 * (queries + keys));
    if (ranks == 2) continue;
    config.parallel.cp.hierarchical = {2, ranks / 2};
    const Traffic both = traffic(CpCommType::a2a_p2p);
    EXPECT_EQ(both.messages_sent, layers * 3 * (ranks / 2 - 1));
    EXPECT_EQ(both.point_to_point_sent.value, layers * 3 * 4 * keys * (ranks / 2 - 1));
    EXPECT_EQ(both.of(Group::context).calls, 0);
    EXPECT_EQ(both.of(Group::context_heads), exchanged);  // a rank sends half of it
  }
}

}  // namespace
}  // namespace plumbline::traffic_forms_test
