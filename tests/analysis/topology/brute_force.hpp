// Loads of links counted message by message over every path, and the random networks on which that is
// compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "analysis/topology/link_loads.hpp"

namespace plumbline {

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

inline void expect_same(const std::vector<double>& ours, const std::vector<double>& theirs, const char* what,
                        int seed) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_NEAR(ours[i], theirs[i], 1e-9 * (1 + theirs[i])) << what << ' ' << i << ", topology " << seed;
}

inline void expect_same(const LinkLoads& ours, const LinkLoads& theirs, int seed) {
  expect_same(ours.nvlink_out, theirs.nvlink_out, "nvlink out", seed);
  expect_same(ours.nvlink_in, theirs.nvlink_in, "nvlink in", seed);
  expect_same(ours.port_up, theirs.port_up, "port up", seed);
  expect_same(ours.port_down, theirs.port_down, "port down", seed);
  expect_same(ours.bundle_up, theirs.bundle_up, "bundle up", seed);
  expect_same(ours.bundle_down, theirs.bundle_down, "bundle down", seed);
}

/// Up to 12 nodes on up to 12 switches of three tiers, bundles of one to three cables, some with gaps.
inline Fabric random_fabric(std::mt19937& random) {
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
inline Groups random_groups(const Fabric& fabric, std::mt19937& random) {
  std::vector<std::int64_t> gpus(static_cast<std::size_t>(fabric.gpus()));
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i] = static_cast<std::int64_t>(i);
  std::shuffle(gpus.begin(), gpus.end(), random);
  Groups groups(1 + random() % 3);
  const std::size_t used = 1 + random() % gpus.size();
  for (std::size_t i = 0; i < used; ++i) groups[i % groups.size()].push_back(gpus[i]);
  return groups;
}

}  // namespace plumbline
