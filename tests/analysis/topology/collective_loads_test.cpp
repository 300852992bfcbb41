// Loads of collectives against the collectives carried out: every block by itself, until all ranks have their
// result.
#include "analysis/topology/collective_loads.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "analysis/topology/double_tree.hpp"
#include "analysis/topology/fabric_generators.hpp"
#include "core/base/error.hpp"
#include "tests/analysis/topology/brute_force.hpp"

namespace plumbline::collective_loads_test {
namespace {

using Group = std::vector<std::int64_t>;

/// Ranks whose contributions are in every block of every rank.
using Blocks = std::vector<std::vector<std::set<std::size_t>>>;

/// A ring of `order`, block by block: the reduce-scatter, the all-gather, or both. Checks the ranks' results.
void run_ring(const Group& order, GroupCall call, double bytes, BruteForce& links) {
  const std::size_t n = order.size();
  Blocks have(n, std::vector<std::set<std::size_t>>(n));
  for (std::size_t rank = 0; rank < n; ++rank) {
    for (std::size_t block = 0; block < n; ++block) {
      if (call != GroupCall::all_gather || block == rank) have[rank][block] = {rank};
    }
  }
  const auto pass = [&](std::size_t rank, std::size_t block) {
    links.send(order[rank], order[(rank + 1) % n], bytes / static_cast<double>(n));
    return have[rank][block];
  };
  if (call != GroupCall::all_gather) {
    for (std::size_t step = 0; step + 1 < n; ++step) {
      const Blocks before = have;
      for (std::size_t rank = 0; rank < n; ++rank) {
        const std::size_t block = (rank + 2 * n - step - 1) % n;
        have[(rank + 1) % n][block].insert(before[rank][block].begin(), before[rank][block].end());
        pass(rank, block);
      }
    }
    for (std::size_t rank = 0; rank < n; ++rank) ASSERT_EQ(have[rank][rank].size(), n);
  }
  if (call == GroupCall::reduce_scatter) return;
  for (std::size_t step = 0; step + 1 < n; ++step) {
    for (std::size_t rank = 0; rank < n; ++rank) {
      const std::size_t block = (rank + n - step) % n;
      have[(rank + 1) % n][block] = pass(rank, block);
    }
  }
  for (std::size_t rank = 0; rank < n; ++rank) {
    for (std::size_t block = 0; block < n; ++block)
      ASSERT_EQ(have[rank][block].size(), call == GroupCall::all_gather ? 1U : n);
  }
}

/// Sums up to the root and back, over the two trees.
void run_trees(const Group& heads, double bytes, BruteForce& links) {
  const int n = static_cast<int>(heads.size());
  for (const TreeOfTwo which : {TreeOfTwo::first, TreeOfTwo::second}) {
    const std::vector<int> parents = tree_parents(n, which);
    std::vector<int> below(heads.size(), 1);
    for (int rank = 0; rank < n; ++rank) {
      for (int at = rank, hops = 0; parents[at] >= 0; at = parents[at]) {
        ASSERT_LT(++hops, n) << "a circle";
        ++below[parents[at]];
      }
      if (parents[rank] < 0) continue;
      links.send(heads[rank], heads[parents[rank]], bytes / 2);
      links.send(heads[parents[rank]], heads[rank], bytes / 2);
    }
    for (int rank = 0; rank < n; ++rank) {
      if (parents[rank] < 0) {
        ASSERT_EQ(below[rank], n) << "everybody is below the root";
      }
    }
  }
}

/// Ring c through all nodes, written out: forwards through even ones from c, backwards through odd ones from
/// the one before.
Group ring_order(const DomainsOfGroup& domains, int c) {
  Group order;
  for (std::size_t d = 0; d < domains.size(); ++d) {
    const int count = static_cast<int>(domains[d].size());
    Group turned;
    for (int i = 0; i < count; ++i) turned.push_back(domains[d][(c + i) % count]);
    if (d % 2 == 1) std::reverse(turned.begin(), turned.end());
    order.insert(order.end(), turned.begin(), turned.end());
  }
  return order;
}

int least_members(const DomainsOfGroup& domains) {
  std::size_t least = domains.front().size();
  for (const Group& domain : domains) least = std::min(least, domain.size());
  return static_cast<int>(least);
}

Group column(const DomainsOfGroup& domains, std::size_t i) {
  Group members;
  for (const Group& domain : domains) members.push_back(domain[i]);
  return members;
}

/// The calls of one algorithm over a group, phase by phase into `phases`.
void carry_out(const DomainsOfGroup& domains, const Group& group, GroupCall call, CallAlgorithm algorithm,
               double bytes, std::vector<BruteForce>& phases) {
  const int members = least_members(domains);
  if (algorithm == CallAlgorithm::ring) {
    const int rings = domains.size() == 1 ? 1 : members;
    for (int c = 0; c < rings; ++c) run_ring(ring_order(domains, c), call, bytes / rings, phases[0]);
  } else if (algorithm == CallAlgorithm::tree) {
    for (int c = 0; c < members; ++c) {
      Group heads;
      for (const Group& domain : domains) {
        const auto count = static_cast<int>(domain.size());
        heads.push_back(domain[c % count]);
        for (int i = 1; i < count; ++i) {
          phases[0].send(domain[(c + i) % count], domain[(c + i - 1) % count], bytes / members);
          phases[0].send(domain[(c + i - 1) % count], domain[(c + i) % count], bytes / members);
        }
      }
      run_trees(heads, bytes / members, phases[0]);
    }
  } else if (algorithm == CallAlgorithm::pat) {
    const std::size_t n = group.size();
    // Whose block a rank has; of a reduce-scatter the same the other way round.
    std::vector<std::set<std::size_t>> have(n);
    for (std::size_t rank = 0; rank < n; ++rank) have[rank] = {rank};
    std::size_t step = 1;
    while (step * 2 < n) step *= 2;
    for (; step > 0; step /= 2) {
      const auto before = have;
      for (std::size_t rank = 0; rank < n; ++rank) {
        for (const std::size_t owner : before[rank]) {
          if ((rank + n - owner) % n + step >= n) continue;  // it has come round
          const std::size_t to = (rank + step) % n;
          have[to].insert(owner);
          const bool gather = call == GroupCall::all_gather;
          phases[0].send(group[gather ? rank : to], group[gather ? to : rank],
                         bytes / static_cast<double>(n));
        }
      }
    }
    for (const auto& blocks : have) ASSERT_EQ(blocks.size(), n);
  } else {  // hierarchical
    std::size_t phase = 0;
    const auto within = [&](GroupCall half) {
      for (const Group& domain : domains) run_ring(domain, half, bytes, phases[phase]);
      ++phase;
    };
    if (call != GroupCall::all_gather) within(GroupCall::reduce_scatter);
    for (int i = 0; i < members; ++i) {
      if (algorithm == CallAlgorithm::hierarchical_ring) {
        run_ring(column(domains, i), call, bytes / members, phases[phase]);
      } else {
        run_trees(column(domains, i), bytes / members, phases[phase]);
      }
    }
    ++phase;
    if (call != GroupCall::reduce_scatter) within(GroupCall::all_gather);
  }
}

/// Groups of several nodes with `members` of each, or, every third time, any GPUs at all.
Groups groups_for(const Fabric& fabric, int seed, std::mt19937& random) {
  Groups groups = random_groups(fabric, random);
  std::erase_if(groups, [](const Group& group) { return group.size() < 2; });
  if (seed % 3 == 0) return groups;
  const int per_domain = fabric.gpus_per_node * fabric.nodes_per_domain;
  const int domains = fabric.nodes / fabric.nodes_per_domain;
  const int members = 1 + static_cast<int>(random() % static_cast<unsigned>(per_domain));
  Group group;
  for (int d = 0; d < domains; ++d) {
    for (int i = 0; i < members; ++i) group.push_back(std::int64_t{d} * per_domain + (i + d) % per_domain);
  }
  return {group};
}

TEST(CollectiveLoads, AreWhatTheCollectivesCarriedOutPutOnTheLinks) {
  std::map<CallAlgorithm, int> compared;
  for (int seed = 0; seed < 200; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const Fabric fabric = random_fabric(random);
    const Groups groups = groups_for(fabric, seed, random);
    if (groups.empty()) continue;
    const Forwarding forwarding = seed % 2 == 0 ? Forwarding::none : Forwarding::own_node;
    for (const GroupCall call : {GroupCall::all_reduce, GroupCall::all_gather, GroupCall::reduce_scatter}) {
      for (const CallAlgorithm algorithm :
           {CallAlgorithm::ring, CallAlgorithm::tree, CallAlgorithm::pat, CallAlgorithm::hierarchical_ring,
            CallAlgorithm::hierarchical_tree}) {
        const auto loads = collective_loads(fabric, groups, call, algorithm, 12, forwarding);
        if (!loads) continue;
        std::vector<BruteForce> phases(loads->size(), BruteForce(fabric, forwarding));
        for (const Group& group : groups)
          carry_out(domains_of(fabric, group), group, call, algorithm, 12, phases);
        ++compared[algorithm];
        for (std::size_t i = 0; i < phases.size(); ++i) expect_same((*loads)[i], phases[i].loads, seed);
      }
    }
  }
  EXPECT_EQ(compared.size(), 5U);
  for (const auto& [algorithm, count] : compared) EXPECT_GE(count, 20) << name_of(algorithm);
}

TEST(CollectiveLoads, TreesAreNcclsAndNoNodeHasChildrenInBoth) {
  // As drawn in NCCL's src/graph/trees.cc.
  EXPECT_THAT(tree_parents(14, TreeOfTwo::first),
              testing::ElementsAre(-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12));
  EXPECT_THAT(tree_parents(12, TreeOfTwo::second),
              testing::ElementsAre(1, 3, 1, 11, 5, 7, 5, 3, 9, 7, 9, -1));
  EXPECT_THAT(tree_parents(1, TreeOfTwo::first), testing::ElementsAre(-1));
  for (int nodes = 2; nodes < 70; ++nodes) {
    std::vector<int> inner(static_cast<std::size_t>(nodes));
    for (const TreeOfTwo which : {TreeOfTwo::first, TreeOfTwo::second}) {
      std::vector<int> children(inner.size());
      for (const int parent : tree_parents(nodes, which))
        if (parent >= 0) ++children[parent];
      EXPECT_LE(*std::max_element(children.begin(), children.end()), 2) << nodes;
      for (std::size_t i = 0; i < inner.size(); ++i) inner[i] += int{children[i] > 0};
    }
    // With an odd number one node has children in both: the root of the second tree, a leaf of the first,
    // apart.
    EXPECT_LE(std::count(inner.begin(), inner.end(), 2), nodes % 2) << nodes;
  }
}

/// Groups of leaf switches, each with its own spines, and `cores` core switches for every spine of a group.
Fabric three_tiers(int groups, int leaves, int spines, int cores, int nodes_of_leaf) {
  Fabric fabric;
  fabric.gpus_per_node = 1;
  fabric.nodes = groups * leaves * nodes_of_leaf;
  const int all_leaves = groups * leaves;
  const int all_spines = groups * spines;
  for (int i = 0; i < all_leaves; ++i) fabric.switches.push_back({Tier::leaf, "l"});
  for (int i = 0; i < all_spines; ++i) fabric.switches.push_back({Tier::spine, "s"});
  for (int i = 0; i < spines * cores; ++i) fabric.switches.push_back({Tier::core, "c"});
  for (int g = 0; g < groups; ++g) {
    for (int s = 0; s < spines; ++s) {
      const int spine = all_leaves + g * spines + s;
      for (int l = 0; l < leaves; ++l) fabric.bundles.push_back({g * leaves + l, spine, 2});
      for (int c = 0; c < cores; ++c)
        fabric.bundles.push_back({spine, all_leaves + all_spines + s * cores + c, 1});
    }
  }
  for (int node = 0; node < fabric.nodes; ++node) fabric.leaf_of_gpu.push_back(node / nodes_of_leaf);
  return fabric;
}

// A slice of the sum passes every cable once, however many contributions are in it.
TEST(CollectiveLoads, SwitchesPassEverySliceOfASumOnce) {
  for (int seed = 0; seed < 60; ++seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const auto draw = [&](int low, int high) {
      return std::uniform_int_distribution<int>(low, high)(random);
    };
    const int groups = draw(1, 3), leaves = draw(1, 4), spines = draw(1, 3), cores = draw(1, 3);
    const Fabric fabric = three_tiers(groups, leaves, spines, cores, 2);
    Group gpus;
    for (std::int64_t gpu = 0; gpu < fabric.gpus(); ++gpu)
      if (draw(0, 1) == 1) gpus.push_back(gpu);
    if (gpus.size() < 2) continue;
    std::set<int> used;
    std::set<int> used_groups;
    for (const std::int64_t gpu : gpus) {
      used.insert(static_cast<int>(gpu) / 2);
      used_groups.insert(static_cast<int>(gpu) / 2 / leaves);
    }
    std::set<std::tuple<std::size_t, int, int>> passed;  // bundle, slice by spine and core
    for (const int leaf : used) {
      if (used.size() == 1) break;
      for (std::size_t i = 0; i < fabric.bundles.size(); ++i) {
        const CableBundle& first = fabric.bundles[i];
        if (first.lower != leaf) continue;
        const int slice = (first.upper - groups * leaves) % spines;
        for (int c = 0; c < cores; ++c) passed.insert({i, slice, c});
        if (used_groups.size() == 1) continue;
        for (std::size_t j = 0; j < fabric.bundles.size(); ++j) {
          if (fabric.bundles[j].lower != first.upper) continue;
          passed.insert({j, slice, (fabric.bundles[j].upper - groups * (leaves + spines)) % cores});
        }
      }
    }
    std::vector<double> expected(fabric.bundles.size());
    for (const auto& [bundle, slice, core] : passed) expected[bundle] += 12.0 / spines / cores;
    const auto loads = collective_loads(fabric, {gpus}, GroupCall::all_reduce, CallAlgorithm::in_switch, 12,
                                        Forwarding::none);
    ASSERT_TRUE(loads) << seed;
    expect_same((*loads)[0].bundle_up, expected, "up", seed);
    expect_same((*loads)[0].bundle_down, expected, "down", seed);
    for (const std::int64_t gpu : gpus) EXPECT_EQ((*loads)[0].port_up[gpu], 12);
  }
}

TEST(CollectiveLoads, SwitchesThatAreNotConnectedAlikeCannotAddUp) {
  Fabric fabric = three_tiers(1, 2, 2, 0, 1);
  fabric.bundles.pop_back();
  EXPECT_FALSE(collective_loads(fabric, {{0, 1}}, GroupCall::all_reduce, CallAlgorithm::in_switch, 1,
                                Forwarding::none));
  const Fabric rails = make_rail_only(4, 8, 1);
  const Group across_rails = {0, 9};
  EXPECT_FALSE(collective_loads(rails, {across_rails}, GroupCall::all_reduce, CallAlgorithm::in_switch, 1,
                                Forwarding::none));
  EXPECT_TRUE(collective_loads(rails, {{0, 8}}, GroupCall::all_reduce, CallAlgorithm::in_switch, 1,
                               Forwarding::none));
}

// Eight GPUs behind NVSwitch send 1 + 1/8 of the buffer each way instead of 2 x 7/8.
TEST(CollectiveLoads, NvSwitchCarriesABufferOnceEachWay) {
  const Fabric fabric = make_rail_only(2, 8, 1);
  Group node(8);
  std::iota(node.begin(), node.end(), 0);
  const auto loads_of = [&](GroupCall call, CallAlgorithm algorithm) {
    return collective_loads(fabric, {node}, call, algorithm, 8, Forwarding::none)->front();
  };
  EXPECT_EQ(loads_of(GroupCall::all_reduce, CallAlgorithm::nvls).nvlink_out[3], 9);
  EXPECT_EQ(loads_of(GroupCall::all_reduce, CallAlgorithm::nvls).nvlink_in[3], 9);
  EXPECT_EQ(loads_of(GroupCall::all_reduce, CallAlgorithm::ring).nvlink_out[3], 14);
  EXPECT_EQ(loads_of(GroupCall::all_gather, CallAlgorithm::nvls).nvlink_out[3], 1);
  EXPECT_EQ(loads_of(GroupCall::all_gather, CallAlgorithm::nvls).nvlink_in[3], 8);
  EXPECT_EQ(loads_of(GroupCall::reduce_scatter, CallAlgorithm::nvls).nvlink_in[3], 1);
  Group both(16);
  std::iota(both.begin(), both.end(), 0);
  const auto loads =
      collective_loads(fabric, {both}, GroupCall::all_reduce, CallAlgorithm::nvls_tree, 8, Forwarding::none);
  EXPECT_EQ(loads->front().nvlink_in[3], 9);
  EXPECT_EQ(loads->front().port_up[3], 1) << "half an eighth up, half an eighth down";
}

TEST(CollectiveLoads, WhatDoesNotFitIsLeftOut) {
  const Fabric fabric = make_rail_only(4, 2, 1);
  const Groups one_each = {{0, 2, 4}};
  const Groups uneven = {{0, 1, 2}};
  const auto has = [&](const Groups& groups, GroupCall call, CallAlgorithm algorithm) {
    return collective_loads(fabric, groups, call, algorithm, 1, Forwarding::own_node).has_value();
  };
  EXPECT_FALSE(has(one_each, GroupCall::all_gather, CallAlgorithm::tree))
      << "NCCL's trees are for all-reduce only";
  EXPECT_FALSE(has(one_each, GroupCall::all_reduce, CallAlgorithm::pat));
  EXPECT_FALSE(has(one_each, GroupCall::all_reduce, CallAlgorithm::hierarchical_ring));
  EXPECT_FALSE(has(uneven, GroupCall::all_reduce, CallAlgorithm::hierarchical_ring));
  EXPECT_FALSE(has(uneven, GroupCall::all_gather, CallAlgorithm::pat));
  EXPECT_FALSE(has(uneven, GroupCall::all_reduce, CallAlgorithm::nvls));
  EXPECT_FALSE(has(one_each, GroupCall::all_reduce, CallAlgorithm::direct));
  EXPECT_FALSE(has(one_each, GroupCall::all_to_all, CallAlgorithm::ring));
  EXPECT_FALSE(has({{0}}, GroupCall::all_reduce, CallAlgorithm::ring));
  EXPECT_FALSE(has({{0, 2}, {1, 3, 5}}, GroupCall::all_to_all, CallAlgorithm::direct));
  EXPECT_TRUE(has(uneven, GroupCall::all_reduce, CallAlgorithm::tree));
  EXPECT_TRUE(has(one_each, GroupCall::all_to_all, CallAlgorithm::forwarded));
  EXPECT_EQ(group_call_named("all-gather"), GroupCall::all_gather);
  EXPECT_THROW(group_call_named("gather"), InputError);
}

}  // namespace
}  // namespace plumbline::collective_loads_test
