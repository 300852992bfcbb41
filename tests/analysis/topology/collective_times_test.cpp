// Times of collectives: NCCL's formula by hand, and its choices.
#include "analysis/topology/collective_times.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "analysis/topology/fabric_generators.hpp"
#include "analysis/topology/placement.hpp"

namespace plumbline {
namespace {

using Groups = std::vector<std::vector<std::int64_t>>;

const AlgorithmTimes& of(const CollectiveTimes& times, CallAlgorithm algorithm) {
  for (const AlgorithmTimes& each : times.algorithms)
    if (each.algorithm == algorithm) return each;
  throw std::runtime_error("not there");
}

CallAlgorithm nccl_of(const CollectiveTimes& times, std::size_t size) {
  return times.algorithms.at(times.nccl[size]).algorithm;
}

TEST(CollectiveTimes, AreNcclsLatenciesAndTheLinksRate) {
  const NcclTuning tuning = nccl_tuning();
  const auto time = [&](CallAlgorithm algorithm, NcclProtocol protocol, GroupShape shape, std::int64_t bytes,
                        double links) {
    return nccl_time(tuning, GroupCall::all_reduce, algorithm, protocol, shape, Bytes{bytes}, Seconds{links})
        ->value;
  };
  // Eight ranks of a node: 14 steps.
  EXPECT_NEAR(time(CallAlgorithm::ring, NcclProtocol::simple, {8, 1}, 1 << 30, 1e-3),
              8.4e-6 + 14 * 3.4e-6 + 1e-3, 1e-12);
  EXPECT_NEAR(time(CallAlgorithm::ring, NcclProtocol::ll, {8, 1}, 1 << 20, 1e-6),
              6.6e-6 + 14 * 0.6e-6 + (1 << 20) / (141e9 * 8 / 14), 1e-12);
  // Sixteen nodes of eight: within nodes the host's 1 us (3 of Simple) hide NVLink's; the plateau lengthens
  // it 1.4 times.
  EXPECT_NEAR(time(CallAlgorithm::ring, NcclProtocol::ll128, {128, 16}, 1 << 26, 1e-3),
              14e-6 + (254 - 30) * 1.9e-6 + 30 * 4e-6 + 1e-3 / 0.92, 1e-9);
  EXPECT_NEAR(time(CallAlgorithm::ring, NcclProtocol::simple, {128, 16}, 1 << 26, 1e-3),
              1.4 * (8.4e-6 + (254 - 30) * 3.4e-6 + 30 * 14e-6) + 1e-3, 1e-9);
  EXPECT_NEAR(time(CallAlgorithm::tree, NcclProtocol::ll, {128, 16}, 4096, 1e-9),
              6.8e-6 + 2 * (7 * 0.6e-6 + 4 * 5e-6) + 4096 / (20.4e9 / 2 * 0.7), 1e-12);
  // One member a node: steps of the network are those of the tree.
  EXPECT_NEAR(time(CallAlgorithm::ring, NcclProtocol::ll128, {16, 16}, 1 << 26, 1e-3),
              14e-6 + 30 * 8.5e-6 + 1e-3 / 0.92, 1e-9);
  EXPECT_FALSE(nccl_time(tuning, GroupCall::all_reduce, CallAlgorithm::hierarchical_ring,
                         NcclProtocol::simple, {128, 16}, Bytes{1}, Seconds{1}));
  EXPECT_FALSE(nccl_time(tuning, GroupCall::all_reduce, CallAlgorithm::nvls, NcclProtocol::ll, {8, 1},
                         Bytes{1}, Seconds{1}));
}

TEST(CollectiveTimes, TreesForSmallCallsRingsForLargeOnes) {
  const Fabric fabric = make_superpod(SuperPod::b200, 4);
  std::vector<std::int64_t> all(static_cast<std::size_t>(fabric.gpus()));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<Bytes> sizes = {{1 << 16}, {std::int64_t{16} << 30}};
  const CollectiveTimes times = collective_times(fabric, {all}, GroupCall::all_reduce, sizes, {}, {});
  EXPECT_EQ(times.shape.ranks, 1024);
  EXPECT_EQ(times.shape.nodes, 128);
  EXPECT_EQ(nccl_of(times, 0), CallAlgorithm::tree);
  EXPECT_NE(nccl_of(times, 1), CallAlgorithm::in_switch) << "only where there is SHARP";
  // Eight ports of 50 GB/s a node carry the buffer twice, switches once.
  EXPECT_NEAR(of(times, CallAlgorithm::ring).rate.value, 400e9 / 2 * 1024 / 1023, 1e6);
  EXPECT_NEAR(of(times, CallAlgorithm::in_switch).rate.value, 450e9 / 2 / (7.0 / 8), 1e6)
      << "NVLink is the limit then";
  EXPECT_GT(of(times, CallAlgorithm::ring).times[0].time, 10 * of(times, CallAlgorithm::tree).times[0].time);
  const CollectiveTimes sharp =
      collective_times(fabric, {all}, GroupCall::all_reduce, sizes, {}, {Forwarding::none, true});
  EXPECT_EQ(nccl_of(sharp, 0), CallAlgorithm::in_switch);
}

// A tree would flatter these two: NCCL has rings for them, and PAT where a node has one member.
TEST(CollectiveTimes, GathersHaveNoTrees) {
  const Fabric fabric = make_superpod(SuperPod::b200, 4);
  const auto gpus = place_ranks(fabric, fabric.gpus(), {});
  const Groups one_each = placed(groups_along({{"tp", 8}, {"dp", 128}}, "dp"), gpus);
  const std::vector<Bytes> sizes = {{1 << 16}, {std::int64_t{1} << 30}};
  for (const GroupCall call : {GroupCall::all_gather, GroupCall::reduce_scatter}) {
    const CollectiveTimes times = collective_times(fabric, one_each, call, sizes, {}, {});
    EXPECT_EQ(nccl_of(times, 0), CallAlgorithm::pat);
    EXPECT_EQ(nccl_of(times, 1), CallAlgorithm::ring);
    EXPECT_THROW(of(times, CallAlgorithm::tree), std::runtime_error);
    const CollectiveTimes all = collective_times(fabric, {gpus}, call, sizes, {}, {});
    EXPECT_EQ(nccl_of(all, 0), CallAlgorithm::ring);
    EXPECT_GT(of(all, CallAlgorithm::ring).times[0].time.value, 1023 * 0.6e-6)
        << "in proportion to the ranks";
  }
}

TEST(CollectiveTimes, AnAllToAllIsForwardedAndRailsNeedThat) {
  const Fabric rails = make_rail_only(16, 8, 1);
  std::vector<std::int64_t> all(static_cast<std::size_t>(rails.gpus()));
  std::iota(all.begin(), all.end(), 0);
  const CollectiveTimes times =
      collective_times(rails, {all}, GroupCall::all_to_all, {{1 << 24}}, {}, {Forwarding::own_node, false});
  ASSERT_EQ(times.algorithms.size(), 1U);
  EXPECT_EQ(nccl_of(times, 0), CallAlgorithm::forwarded);
  EXPECT_EQ(times.algorithms[0].link, "port");
}

}  // namespace
}  // namespace plumbline
