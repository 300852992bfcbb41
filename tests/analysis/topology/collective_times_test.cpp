// Times of collectives on a network: those of `predict`, and longer if links are shared.
#include "analysis/topology/collective_times.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <numeric>
#include <random>
#include <stdexcept>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/time/accelerator_time.hpp"
#include "analysis/topology/fabric_generators.hpp"
#include "analysis/topology/placement.hpp"

namespace plumbline::collective_times_test {
namespace {

using Groups = std::vector<std::vector<std::int64_t>>;

const Network& b200() {
  return built_in_profiles().machine("b200-sxm-180gb").network;
}

const AlgorithmRate& of(const CollectiveTimes& times, CallAlgorithm algorithm) {
  for (const AlgorithmRate& each : times.algorithms)
    if (each.algorithm == algorithm) return each;
  throw std::runtime_error("not there");
}

std::vector<std::int64_t> all_of(const Fabric& fabric) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(fabric.gpus()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

struct Drawn {
  GroupCall call;
  CallKind kind;
};
constexpr Drawn kCalls[] = {{GroupCall::all_reduce, CallKind::all_reduce},
                            {GroupCall::all_gather, CallKind::all_gather},
                            {GroupCall::reduce_scatter, CallKind::reduce_scatter},
                            {GroupCall::all_to_all, CallKind::all_to_all}};

/// Without oversubscription `predict` and `topology` give a collective the same time.
TEST(CollectiveTimes, AreThoseOfPredictIfNoLinkIsShared) {
  std::mt19937 draws(7);
  const auto one_of = [&](std::size_t count) { return draws() % count; };
  const auto power = [&](std::size_t most) { return 1 << one_of(most + 1); };
  const std::vector<Fabric> fabrics = {make_superpod(SuperPod::b200, 1), make_superpod(SuperPod::b300, 1),
                                       make_fat_tree(16, 8)};
  const auto& machines = built_in_profiles().machines;
  int compared = 0;
  for (int i = 0; i < 400; ++i) {
    const Fabric& fabric = fabrics[one_of(fabrics.size())];
    const auto machine = std::next(machines.begin(), static_cast<std::ptrdiff_t>(one_of(machines.size())));
    Network network = machine->second.network;
    network.gpus_per_node = fabric.gpus_per_node * fabric.nodes_per_domain;
    Layout layout;
    layout.tensor = power(3);
    layout.pipeline = power(2);
    layout.data = static_cast<int>(fabric.gpus()) / layout.tensor / layout.pipeline;
    const bool by_tensor = one_of(2) == 0;
    const Drawn& drawn = kCalls[one_of(std::size(kCalls))];
    const CollectiveCall collective{.kind = drawn.kind,
                                    .group = by_tensor ? Group::tensor : Group::data,
                                    .ranks = by_tensor ? layout.tensor : layout.data,
                                    .elements = 1 + static_cast<std::int64_t>(one_of(1'000'000'000))};
    const OperatorCall call{.work = collective};
    if (collective.ranks < 2) continue;
    const RankOrder order = {{"tp", layout.tensor}, {"dp", layout.data}, {"pp", layout.pipeline}};
    const Groups groups =
        placed(groups_along(order, by_tensor ? "tp" : "dp"), place_ranks(fabric, fabric.gpus(), {}));
    const CollectiveTimes times =
        collective_times(fabric, groups, drawn.call, {call.bytes()}, {}, {}, network);
    SCOPED_TRACE(testing::Message() << name_of(drawn.call) << " of " << call.bytes().value << " bytes on "
                                    << machine->first << ", tp " << layout.tensor << " dp " << layout.data
                                    << " pp " << layout.pipeline);
    EXPECT_NEAR(times.sharing, 1, 1e-12);
    const double predicted = accelerator_collective_time(call, network, layout).value;
    EXPECT_NEAR(times.seconds.front().value, predicted, 1e-12 * predicted);
    ++compared;
  }
  EXPECT_GT(compared, 250);
}

TEST(CollectiveTimes, GrowWithWhatOthersPutOnTheLinks) {
  const Fabric pods = make_llama3(2);  // between pods a seventh of the bandwidth within
  const auto gpus = place_ranks(pods, pods.gpus(), {});
  const std::int64_t far = pods.gpus() / 2;
  Groups pairs;  // every GPU of a pod with one of the other
  for (std::int64_t gpu = 0; gpu < far; ++gpu) pairs.push_back({gpus[gpu], gpus[gpu + far]});
  const std::vector<Bytes> sizes = {{1 << 10}, {std::int64_t{1} << 30}};
  const CollectiveTimes times = collective_times(pods, pairs, GroupCall::all_reduce, sizes, {}, {}, b200());
  EXPECT_GT(times.sharing, 6.9);
  const CollectiveTimes one =
      collective_times(pods, {pairs.front()}, GroupCall::all_reduce, sizes, {}, {}, b200());
  EXPECT_NEAR(one.sharing, 1, 1e-12);
  EXPECT_NEAR(times.seconds[0] / one.seconds[0], 1, 0.02) << "latency is not shared";
  EXPECT_NEAR(times.seconds[1] / one.seconds[1], times.sharing, 0.1);
}

TEST(CollectiveTimes, RatesOfAlgorithmsAreThoseOfTheirBusiestLinks) {
  const Fabric fabric = make_superpod(SuperPod::b200, 4);
  const std::vector<Bytes> sizes = {{std::int64_t{16} << 30}};
  const CollectiveTimes times =
      collective_times(fabric, {all_of(fabric)}, GroupCall::all_reduce, sizes, {}, {}, b200());
  EXPECT_EQ(times.ranks, 1024);
  EXPECT_EQ(times.nodes, 128);
  EXPECT_EQ(times.taken, CallAlgorithm::ring);
  // Eight ports of 50 GB/s a node carry the buffer twice, switches once.
  EXPECT_NEAR(of(times, CallAlgorithm::ring).rate.value, 400e9 / 2 * 1024 / 1023, 1e6);
  EXPECT_NEAR(of(times, CallAlgorithm::in_switch).rate.value, 450e9 / 2 / (7.0 / 8), 1e6)
      << "NVLink is the limit then";
  const CollectiveTimes sharp = collective_times(fabric, {all_of(fabric)}, GroupCall::all_reduce, sizes, {},
                                                 {Forwarding::none, true}, b200());
  EXPECT_EQ(sharp.taken, CallAlgorithm::in_switch);
  EXPECT_LT(sharp.seconds.front(), times.seconds.front());
  EXPECT_THROW(of(collective_times(fabric, {all_of(fabric)}, GroupCall::all_gather, sizes, {}, {}, b200()),
                  CallAlgorithm::tree),
               std::runtime_error);
}

TEST(CollectiveTimes, AnAllToAllIsForwardedAndRailsNeedThat) {
  const Fabric rails = make_rail_only(16, 8, 1);
  const CollectiveTimes times = collective_times(rails, {all_of(rails)}, GroupCall::all_to_all, {{1 << 24}},
                                                 {}, {Forwarding::own_node, false}, b200());
  ASSERT_EQ(times.algorithms.size(), 1U);
  EXPECT_EQ(times.taken, CallAlgorithm::forwarded);
  EXPECT_EQ(times.algorithms[0].link, "port");
}

}  // namespace
}  // namespace plumbline::collective_times_test
