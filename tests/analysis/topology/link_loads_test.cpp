// Loads of links against a count of every message over every path, on random networks.
#include "analysis/topology/link_loads.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "analysis/topology/fabric_generators.hpp"
#include "analysis/topology/placement.hpp"
#include "analysis/topology/placement_search.hpp"
#include "core/base/error.hpp"
#include "tests/analysis/topology/brute_force.hpp"

namespace plumbline::link_loads_test {
namespace {

TEST(LinkLoads, RingAndAllToAllAreWhatEveryMessageByItselfMakes) {
  for (int seed = 0; seed < 200; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Fabric fabric = random_fabric(random);
    const Groups groups = random_groups(fabric, random);
    for (const Forwarding forwarding : {Forwarding::none, Forwarding::own_node}) {
      BruteForce ring(fabric, forwarding);
      BruteForce all(fabric, forwarding);
      for (const auto& group : groups) {
        for (std::size_t i = 0; i < group.size(); ++i) {
          ring.send(group[i], group[(i + 1) % group.size()], 3);
          for (const std::int64_t to : group) all.send(group[i], to, 2.5);
        }
      }
      expect_same(link_loads(fabric, ring_transfers(groups, 3), forwarding), ring.loads, seed);
      expect_same(all_to_all_loads(fabric, groups, 2.5, forwarding), all.loads, seed);
    }
  }
}

TEST(LinkLoads, RailsWithoutANetworkBetweenThemNeedForwarding) {
  const Fabric fabric = make_rail_only(4, 8, 1);
  const Groups all = {{0, 9, 18, 27}};
  EXPECT_THROW(all_to_all_loads(fabric, all, 1, Forwarding::none), InputError);
  const LinkLoads loads = all_to_all_loads(fabric, all, 1, Forwarding::own_node);
  EXPECT_EQ(loads.nvlink_out[0], 3);
  EXPECT_EQ(loads.port_up[1], 1);
  EXPECT_EQ(loads.port_down[9], 3);
}

TEST(LinkLoads, ARingOfAllGpusIsOneMessageAPortAndOversubscriptionShows) {
  const Fabric pods = make_llama3(2);
  const RankOrder order = {{"tp", 8}, {"dp", 2 * 384}};
  const auto gpus = place_ranks(pods, pods.gpus(), {});
  const Bottleneck data = bottleneck_of(
      pods, link_loads(pods, ring_transfers(placed(groups_along(order, "dp"), gpus), 50e9), Forwarding::none),
      {});
  EXPECT_EQ(data.link, "port");
  EXPECT_DOUBLE_EQ(data.time.value, 1);
  // All-to-all: half of all bytes go between the pods.
  const Groups everybody = {gpus};
  const double bytes = 50e9 / static_cast<double>(gpus.size());
  const Bottleneck all = bottleneck_of(pods, all_to_all_loads(pods, everybody, bytes, Forwarding::none), {});
  EXPECT_EQ(all.link, "spine to core");
  EXPECT_NEAR(all.time.value, 3.5, 0.01);
  const Fabric full = make_superpod(SuperPod::b200, 16);
  const auto all_gpus = place_ranks(full, full.gpus(), {});
  const LinkLoads loads = all_to_all_loads(full, {all_gpus}, 50e9 / 4096, Forwarding::own_node);
  EXPECT_NEAR(bottleneck_of(full, loads, {}).time.value, 1, 0.01) << "full bandwidth everywhere";
}

TEST(Placement, GroupsFollowTheOrderOfTheAxes) {
  const RankOrder sizes = {{"tp", 2}, {"cp", 1}, {"dp", 3}, {"pp", 2}};
  const RankOrder usual = rank_order("tp-cp-dp-pp", sizes);
  EXPECT_THAT(groups_along(usual, "dp"),
              testing::ElementsAre(testing::ElementsAre(0, 2, 4), testing::ElementsAre(1, 3, 5),
                                   testing::ElementsAre(6, 8, 10), testing::ElementsAre(7, 9, 11)));
  EXPECT_THAT(groups_along(rank_order("pp-tp-cp-dp", sizes), "pp").front(), testing::ElementsAre(0, 1));
  // Rank 3 of the usual order is tensor rank 1, data rank 1, stage 0.
  EXPECT_THAT(renumbered(usual, rank_order("pp-tp-cp-dp", sizes)),
              testing::ElementsAre(0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11));
  for (const char* wrong : {"", "tp", "tp-cp-dp-dp", "tp-cp-dp-pp-", "tp-cp-dp-xx"})
    EXPECT_THROW(rank_order(wrong, sizes), InputError) << wrong;
  const Fabric fabric = make_rail_only(3, 2, 1);
  EXPECT_THAT(place_ranks(fabric, 4, {2, 0}), testing::ElementsAre(4, 5, 0, 1));
  EXPECT_THROW(place_ranks(fabric, 7, {}), InputError);
  EXPECT_THROW(place_ranks(fabric, 3, {1, 1}), InputError);
}

// Tensor ranks send most: they belong on NVLink, in any order of the sizes; and stages in one pod.
TEST(PlacementSearch, TheAxisThatSendsMostIsOnTheFastestLinks) {
  const Fabric pods = make_llama3(4);
  const auto gpus = place_ranks(pods, pods.gpus(), {});
  const RankOrder sizes = {{"pp", 16}, {"cp", 1}, {"dp", 96}, {"tp", 8}};
  const std::vector<AxisBytes> bytes = {{"tp", 1e12}, {"cp", 0}, {"dp", 1e9}, {"pp", 50e9}};
  const std::vector<OrderTimes> orders = search_orders(pods, sizes, bytes, {}, gpus, {}, Forwarding::none);
  ASSERT_EQ(orders.size(), 6U);
  EXPECT_EQ(orders[0].order, "tp-pp-dp-cp");
  EXPECT_EQ(orders[0].axes.size(), 3U);
  EXPECT_NEAR(orders[0].total.value, 1e12 / 450e9 + 1e9 / 50e9 + 50e9 / 50e9, 1e-6);
  EXPECT_TRUE(std::is_sorted(orders.begin(), orders.end(), [](const OrderTimes& a, const OrderTimes& b) {
    return a.total.value < b.total.value;
  }));
  const auto usual = std::find_if(orders.begin(), orders.end(),
                                  [](const auto& each) { return each.order == "tp-dp-pp-cp"; });
  EXPECT_EQ(why_shorter(orders[0], *usual), "pp has 50.0 GB/s (port) instead of 28.6 (spine to core)");
  EXPECT_EQ(why_shorter(orders[0], orders[0]), "");
}

// Experts over all ranks of a stage fit one node when stages are the slow axis: every order that separates
// them pays.
TEST(PlacementSearch, RanksThatExchangeTokensStayInANode) {
  const Fabric fabric = make_rail_only(2, 8, 1);
  const auto gpus = place_ranks(fabric, fabric.gpus(), {});
  const RankOrder sizes = {{"tp", 2}, {"cp", 1}, {"dp", 4}, {"pp", 2}};
  const GroupsBytes experts = {"ep", {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}, 1e9, 2e9};
  const LinkRates rates;
  const auto orders = search_orders(fabric, sizes, {}, {experts}, gpus, rates, Forwarding::own_node);
  ASSERT_EQ(orders.size(), 6U);
  EXPECT_EQ(orders.front().order, "tp-dp-pp-cp");
  ASSERT_EQ(orders.front().axes.size(), 1U);
  EXPECT_EQ(orders.front().axes.front().link, "nvlink");
  // Seven messages to each, and two to the next.
  EXPECT_NEAR(orders.front().total.value, (7e9 + 2e9) / rates.nvlink.value, 1e-9);
  EXPECT_NEAR(orders.front().axes.front().rate.value, rates.nvlink.value, 1);
  // Stages fastest: half of every group in each node, four of the seven messages leave it.
  EXPECT_NE(orders.back().axes.front().link, "nvlink");
  EXPECT_GT(orders.back().total.value, 4e9 / rates.port.value);
}

}  // namespace
}  // namespace plumbline::link_loads_test
