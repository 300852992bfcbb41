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

namespace plumbline {
namespace {

using Groups = std::vector<std::vector<std::int64_t>>;

/// Every message by itself, over every shortest path.
class BruteForce {
 public:
  BruteForce(const Fabric& fabric, Forwarding forwarding) : fabric_(fabric), forwarding_(forwarding) {
    const std::size_t n = fabric.switches.size();
    hops_.assign(n, std::vector<int>(n, 1000));
    for (std::size_t i = 0; i < n; ++i) hops_[i][i] = 0;
    for (const CableBundle& bundle : fabric.bundles)
      hops_[bundle.lower][bundle.upper] = hops_[bundle.upper][bundle.lower] = 1;
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < n; ++j) hops_[i][j] = std::min(hops_[i][j], hops_[i][k] + hops_[k][j]);
    const std::vector<double> by_gpu(static_cast<std::size_t>(fabric.gpus()));
    const std::vector<double> by_bundle(fabric.bundles.size());
    loads = {by_gpu, by_gpu, by_gpu, by_gpu, by_bundle, by_bundle};
  }

  void send(std::int64_t from, std::int64_t to, double bytes) {
    if (from == to) return;
    if (from / (fabric_.gpus_per_node * fabric_.nodes_per_domain) ==
        to / (fabric_.gpus_per_node * fabric_.nodes_per_domain)) {
      loads.nvlink_out[from] += bytes;
      loads.nvlink_in[to] += bytes;
      return;
    }
    if (forwarding_ == Forwarding::own_node) {
      const std::int64_t through =
          from / fabric_.gpus_per_node * fabric_.gpus_per_node + to % fabric_.gpus_per_node;
      send(from, through, bytes);
      from = through;
    }
    loads.port_up[from] += bytes;
    loads.port_down[to] += bytes;
    walk(fabric_.leaf_of_gpu[from], fabric_.leaf_of_gpu[to], bytes);
  }

  LinkLoads loads;

 private:
  void walk(int at, int target, double bytes) {
    if (at == target) return;
    double cables = 0;
    for (const int pass : {0, 1}) {
      for (std::size_t i = 0; i < fabric_.bundles.size(); ++i) {
        const CableBundle& bundle = fabric_.bundles[i];
        if (bundle.lower != at && bundle.upper != at) continue;
        const int next = bundle.lower == at ? bundle.upper : bundle.lower;
        if (hops_[next][target] != hops_[at][target] - 1) continue;
        if (pass == 0) {
          cables += bundle.cables;
          continue;
        }
        const double part = bytes * bundle.cables / cables;
        (bundle.lower == at ? loads.bundle_up : loads.bundle_down)[i] += part;
        walk(next, target, part);
      }
    }
  }

  const Fabric& fabric_;
  Forwarding forwarding_;
  std::vector<std::vector<int>> hops_;
};

void expect_same(const std::vector<double>& ours, const std::vector<double>& theirs, const char* what,
                 int seed) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_NEAR(ours[i], theirs[i], 1e-9 * (1 + theirs[i])) << what << ' ' << i << ", topology " << seed;
}

void expect_same(const LinkLoads& ours, const LinkLoads& theirs, int seed) {
  expect_same(ours.nvlink_out, theirs.nvlink_out, "nvlink out", seed);
  expect_same(ours.nvlink_in, theirs.nvlink_in, "nvlink in", seed);
  expect_same(ours.port_up, theirs.port_up, "port up", seed);
  expect_same(ours.port_down, theirs.port_down, "port down", seed);
  expect_same(ours.bundle_up, theirs.bundle_up, "bundle up", seed);
  expect_same(ours.bundle_down, theirs.bundle_down, "bundle down", seed);
}

/// Up to 12 nodes on up to 12 switches of three tiers, bundles of one to three cables, some with gaps.
Fabric random_fabric(std::mt19937& random) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Fabric fabric;
  fabric.gpus_per_node = draw(1, 4);
  fabric.nodes_per_domain = draw(1, 3);
  fabric.nodes = fabric.nodes_per_domain * draw(2, 4);
  const int counts[] = {draw(1, 6), draw(1, 4), draw(0, 2)};
  int first = 0;
  for (int tier = 0; tier < kTiers; ++tier) {
    for (int i = 0; i < counts[tier]; ++i) fabric.switches.push_back({static_cast<Tier>(tier), "s"});
    const int upper = first + counts[tier];
    for (int i = 0; tier + 1 < kTiers && i < counts[tier]; ++i) {
      for (int j = 0; j < counts[tier + 1]; ++j) {
        // The first of a tier meets all, so that there is a path.
        if (i == 0 || j == 0 || draw(0, 2) > 0)
          fabric.bundles.push_back({first + i, upper + j, 1.0 * draw(1, 3)});
      }
    }
    first = upper;
  }
  for (std::int64_t gpu = 0; gpu < fabric.gpus(); ++gpu) fabric.leaf_of_gpu.push_back(draw(0, counts[0] - 1));
  return fabric;
}

/// All GPUs, or some of them, in up to three groups and any order.
Groups random_groups(const Fabric& fabric, std::mt19937& random) {
  std::vector<std::int64_t> gpus(static_cast<std::size_t>(fabric.gpus()));
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i] = static_cast<std::int64_t>(i);
  std::shuffle(gpus.begin(), gpus.end(), random);
  Groups groups(1 + random() % 3);
  const std::size_t used = 1 + random() % gpus.size();
  for (std::size_t i = 0; i < used; ++i) groups[i % groups.size()].push_back(gpus[i]);
  return groups;
}

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
  // Everybody to everybody: half of all bytes go between the pods.
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
  for (const char* wrong : {"", "tp", "tp-cp-dp-dp", "tp-cp-dp-pp-", "tp-cp-dp-xx"})
    EXPECT_THROW(rank_order(wrong, sizes), InputError) << wrong;
  const Fabric fabric = make_rail_only(3, 2, 1);
  EXPECT_THAT(place_ranks(fabric, 4, {2, 0}), testing::ElementsAre(4, 5, 0, 1));
  EXPECT_THROW(place_ranks(fabric, 7, {}), InputError);
  EXPECT_THROW(place_ranks(fabric, 3, {1, 1}), InputError);
}

// Tensor ranks send most: they belong on NVLink, whatever order the sizes are given in; and stages in one pod.
TEST(PlacementSearch, TheAxisThatSendsMostIsOnTheFastestLinks) {
  const Fabric pods = make_llama3(4);
  const auto gpus = place_ranks(pods, pods.gpus(), {});
  const RankOrder sizes = {{"pp", 16}, {"cp", 1}, {"dp", 96}, {"tp", 8}};
  const std::vector<AxisBytes> bytes = {{"tp", 1e12}, {"cp", 0}, {"dp", 1e9}, {"pp", 50e9}};
  const std::vector<OrderTimes> orders = search_orders(pods, sizes, bytes, gpus, {}, Forwarding::none);
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

}  // namespace
}  // namespace plumbline
