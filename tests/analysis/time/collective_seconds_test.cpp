// Seconds of collectives and messages: as measured, and by the network between the ranks.
#include <gtest/gtest.h>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "analysis/time/operator_time.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "analysis/work/operator_list_calls.hpp"
#include "tests/analysis/sample_configs.hpp"

namespace plumbline::collective_seconds_test {
namespace {

const HardwareProfile& a100() {
  return *find_hardware_preset("a100-sxm-80gb");
}

OperatorCall collective(CallKind kind, Group group, int ranks, DType type, std::int64_t bytes) {
  return CallList::collective_call(kind, "", group, ranks, bytes / size_of(type), type);
}

TEST(CollectiveSeconds, CollectivesTakeTheNearestMeasurement) {
  HardwareProfile p = a100();
  p.collectives.push_back({2, 2, DType::fp32, false, {{100}, {1}}});
  p.collectives.push_back({2, 8, DType::fp32, false, {{100}, {2}}});
  p.collectives.push_back({4, 4, DType::fp32, false, {{100}, {3}}});
  p.collectives.push_back({4, 4, DType::bf16, false, {{100}, {4}}});
  p.collectives.push_back({2, 2, DType::fp32, true, {{100}, {5}}});
  struct Measured {
    const char* name;
    CallKind kind;
    int world, ranks;
    DType type;
    std::int64_t bytes;
    bool started;
    double seconds;
  };
  using enum CallKind;
  constexpr Measured kCases[] = {
      {"exact", all_reduce, 2, 2, DType::fp32, 100, false, 1},
      {"begun early", all_reduce, 2, 2, DType::fp32, 100, true, 5},
      {"none begun early", all_reduce, 4, 4, DType::fp32, 100, true, 3},
      {"larger world", all_reduce, 16, 2, DType::fp32, 100, false, 2},
      {"group before world", all_reduce, 8, 4, DType::fp32, 100, false, 3},
      {"beyond the table", all_reduce, 8, 8, DType::bf16, 200, false, 8},
      {"alone", all_reduce, 8, 1, DType::fp32, 100, false, 0},
      {"a gather is half", all_gather, 2, 2, DType::fp32, 100, false, 0.5},
      {"a scatter is half", reduce_scatter, 2, 2, DType::fp32, 100, false, 0.5},
      {"gather alone", all_gather, 2, 1, DType::fp32, 100, false, 0},
  };
  for (const Measured& c : kCases) {
    const OperatorCall call = collective(c.kind, Group::tensor, c.ranks, c.type, c.bytes);
    EXPECT_DOUBLE_EQ(collective_time(call, p, {c.world, 1, 1}, c.started).value, c.seconds) << c.name;
  }
}

TEST(CollectiveSeconds, AGatherAndAScatterOfTheirOwnAreTaken) {
  HardwareProfile p = a100();
  p.collectives.push_back({2, 2, DType::fp32, true, {{100}, {8}}});
  p.collectives.push_back({2, 2, DType::fp32, true, {{100}, {1}}, CollectiveKind::all_gather});
  p.collectives.push_back({2, 2, DType::fp32, true, {{100}, {7}}, CollectiveKind::reduce_scatter});
  for (const auto& [kind, seconds] :
       {std::pair{CallKind::all_reduce, 8.0}, std::pair{CallKind::all_gather, 1.0},
        std::pair{CallKind::reduce_scatter, 7.0}}) {
    const OperatorCall call = collective(kind, Group::data, 2, DType::fp32, 100);
    EXPECT_DOUBLE_EQ(collective_time(call, p, {1, 1, 2}, true).value, seconds) << static_cast<int>(kind);
  }
}

TEST(CollectiveSeconds, WithoutMeasurementsOrAcceleratorALinkIsARing) {
  HardwareProfile p;
  p.link_latency.value = 1;
  p.link_bandwidth.value = 100;
  const auto time = [&](CallKind kind) {
    return collective_time(collective(kind, Group::tensor, 4, DType::fp32, 400), p, {4, 1, 1}).value;
  };
  EXPECT_DOUBLE_EQ(time(CallKind::all_reduce), 2 + 2 * 0.75 * 4);
  EXPECT_DOUBLE_EQ(time(CallKind::all_gather), 1 + 0.75 * 4);
  EXPECT_DOUBLE_EQ(message_time(p, 2, {400}).value, 5);
  EXPECT_EQ(pipeline_ranks_per_node(p, {4, 64, 1}), 0);
}

TEST(CollectiveSeconds, GroupsMeetTheTierTheySpan) {
  const Network net = a100().accelerator()->constants.network;
  ASSERT_EQ(net.gpus_per_node, 8);
  constexpr std::int64_t kBytes = 1'000'000'000;
  const double inside = 1.0 / net.node_bandwidth;  // seconds per byte of bus traffic
  const double one_card = 1.0 / net.nic_bandwidth;
  struct Placed {
    const char* name;
    Layout layout;
    Group group;
    int ranks;
    double per_byte;
  };
  const Placed kCases[] = {
      {"tensor in a node", {8, 8, 2}, Group::tensor, 8, inside},
      {"data in a node", {1, 4, 8}, Group::data, 8, inside},
      {"data over nodes, a card each", {8, 1, 4}, Group::data, 4, one_card},
      {"data, two ranks of a group per node", {4, 1, 4}, Group::data, 4, one_card / 2},
      {"secondary shards in a node", {1, 1, 32, 1, false, 1, 1, 1, 0, 8}, Group::zero_param, 8, inside},
      {"secondary shards, half of a group per node",
       {2, 1, 32, 1, false, 1, 1, 1, 0, 8},
       Group::zero_param,
       8,
       one_card / 4},
      {"an instance in a node", {1, 1, 32, 1, false, 1, 1, 1, 0, 1, 8}, Group::optimizer_instance, 8, inside},
      {"between instances, a card each",
       {1, 1, 32, 1, false, 1, 1, 1, 0, 1, 8},
       Group::between_instances,
       4,
       one_card},
      {"between instances, two ranks of a group per node",
       {1, 1, 32, 1, false, 1, 1, 1, 0, 1, 4},
       Group::between_instances,
       8,
       one_card / 2},
      {"pipeline in a node", {2, 4, 1}, Group::pipeline, 4, inside},
      {"pipeline over nodes", {8, 4, 1}, Group::pipeline, 4, one_card},
      {"embedding in a node", {1, 4, 1}, Group::embedding, 2, inside},
      {"embedding over nodes", {4, 4, 1}, Group::embedding, 2, one_card},
      {"mirror over nodes", {4, 4, 1}, Group::mirror, 2, one_card},
      {"model in a node", {4, 2, 1}, Group::model, 8, inside},
      {"world over nodes", {8, 2, 1}, Group::world, 16, one_card / 8},
  };
  for (const Placed& c : kCases) {
    const double n = c.ranks;
    const auto time = [&](CallKind kind) {
      return collective_time(collective(kind, c.group, c.ranks, DType::bf16, kBytes), a100(), c.layout).value;
    };
    EXPECT_NEAR(time(CallKind::all_reduce) / (2 * (n - 1) / n * kBytes * c.per_byte), 1, 0.02) << c.name;
    EXPECT_NEAR(time(CallKind::all_gather) / ((n - 1) / n * kBytes * c.per_byte), 1, 0.02) << c.name;
  }
}

TEST(CollectiveSeconds, AGroupsShareOfTheFirstNodeIsThatOfTheWholeLayout) {
  constexpr int kNode = 8;
  for (const int tensor : {1, 2, 4, 8, 16}) {
    for (const int pipeline : {1, 2, 3, 8, 16}) {
      for (const int data : {1, 2, 3, 4, 32}) {
        const Layout layout{tensor, pipeline, data};
        for (const Group group : {Group::world, Group::tensor, Group::data, Group::pipeline, Group::model,
                                  Group::embedding, Group::mirror}) {
          int local = 0;
          for (const int rank : layout.members(group, 0)) local += rank < kNode ? 1 : 0;
          EXPECT_EQ(span_of(group, 2, layout, kNode).stride, kNode / local)
              << name_of(group) << " " << tensor << " " << pipeline << " " << data;
        }
      }
    }
  }
}

TEST(CollectiveSeconds, MessagesBetweenNodesAreSlower) {
  struct Placed {
    const char* name;
    Layout layout;
    int ranks_per_node;
  };
  constexpr Placed kCases[] = {
      {"one node", {2, 4, 1}, 0},
      {"every hop", {8, 4, 1}, 1},
      {"every hop, replicas between", {4, 4, 4}, 1},
      {"every second hop", {4, 4, 1}, 2},
  };
  for (const Placed& c : kCases) {
    EXPECT_EQ(pipeline_ranks_per_node(a100(), c.layout), c.ranks_per_node) << c.name;
  }
  EXPECT_GT(message_time(a100(), 16, kMiB, true).value, 2 * message_time(a100(), 16, kMiB, false).value);

  RunConfig config = sample::real_model();
  config.parallel.pipeline = 2;
  config.parallel.tensor = 8;
  config.parallel.world_size = 16;
  const Costs costs = stage_costs(config, sample::two_ranks(), a100()).costs;
  EXPECT_EQ(costs.ranks_per_node, 1);
  EXPECT_GT(costs.between_nodes.transfer.value, 2 * costs.transfer.value);
}

}  // namespace
}  // namespace plumbline::collective_seconds_test
