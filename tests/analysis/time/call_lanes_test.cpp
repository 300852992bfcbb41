// Computation and collectives on their lanes, with their mutual slowdown, by hand.
#include "analysis/time/call_lanes.hpp"

#include <gtest/gtest.h>

#include "analysis/work/operator_list_calls.hpp"

namespace plumbline::call_lanes_test {
namespace {

constexpr double kBytesPerSecond = 1e9;

/// Kernels move their bytes at 1 GB/s. Collectives of two ranks take twice as long as their share of the
/// bytes; those that run alongside hold a quarter of 100 processors.
HardwareProfile machine_of(double held) {
  HardwareProfile p;
  Machine& constants = p.kind.emplace<Accelerator>(Accelerator{"a test's", {}}).constants;
  constants.device.processors = 100;
  constants.device.collective_processors = held;
  constants.device.bandwidth = kBytesPerSecond;
  constants.device.stream_share = 1;
  constants.network.node_bandwidth = kBytesPerSecond;
  constants.network.nic_step_s = 1;
  return p;
}

Load two_tensor_ranks() {
  Load load;
  load.layout = {2, 1, 1};
  return load;
}

OperatorCall kernel(double seconds) {
  return CallList::memory_call("add", static_cast<std::int64_t>(seconds * kBytesPerSecond), 1, DType::uint8);
}
/// An all-gather of two ranks, half of whose bytes travel.
OperatorCall gather(const char* label, double seconds, int ticket, Group group = Group::tensor) {
  OperatorCall call =
      CallList::collective_call(CallKind::all_gather, label, group, 2,
                                static_cast<std::int64_t>(2 * seconds * kBytesPerSecond), DType::uint8);
  call.get<CollectiveCall>().ticket = ticket;
  return call;
}
OperatorCall wait(int ticket) {
  return {.work = WaitCall{ticket}};
}

struct Case {
  const char* name;
  std::vector<OperatorCall> calls;
  double all, tensor, slower;
};

TEST(CallLanes, ByHand) {
  // With 20 of 100 processors held kernels take 1.25 times as long.
  const Case cases[] = {
      {"nothing alongside", {kernel(2), gather("a", 3, 0), kernel(1)}, 6, 3, 0},
      {"hidden: 4 s of the kernel do 3.2 s of its work",
       {gather("a", 4, 1), kernel(10), wait(1)},
       10.8,
       0.8,
       0.8},
      {"shorter kernel, all of it slower", {gather("a", 4, 1), kernel(2), wait(1)}, 4, 2, 0.5},
      {"no kernel at all", {gather("a", 4, 1), wait(1), kernel(1)}, 5, 4, 0},
      {"one lane: the second begins after the first",
       {gather("a", 2, 1), gather("b", 2, 2), kernel(1), wait(1), kernel(1), wait(2)},
       4,
       2,
       0.5},
      {"waited for long after its end", {gather("a", 2, 1), kernel(20), kernel(5), wait(1)}, 25.4, 0.4, 0.4},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const PartTime time = time_calls(c.calls, machine_of(20), two_tensor_ranks());
    EXPECT_NEAR(time.all, c.all, 1e-9);
    EXPECT_NEAR(time.tensor, c.tensor, 1e-9);
    double slower = 0;
    for (const Alongside& part : time.alongside) slower += part.slower.value;
    EXPECT_NEAR(slower, c.slower, 1e-9);
  }
}

TEST(CallLanes, WhatIsStartedIsToldByLabel) {
  const PartTime time = time_calls({gather("a", 4, 1), kernel(2), wait(1), gather("a", 1, 2), kernel(2),
                                    wait(2), gather("b", 1, 3), wait(3)},
                                   machine_of(0), two_tensor_ranks());
  ASSERT_EQ(time.alongside.size(), 2u);
  EXPECT_STREQ(time.alongside[0].label, "a");
  EXPECT_NEAR(time.alongside[0].all.value, 5, 1e-9);
  EXPECT_NEAR(time.alongside[0].exposed.value, 2, 1e-9);
  EXPECT_NEAR(time.alongside[1].exposed.value, 1, 1e-9);
  std::vector<Alongside> sum;
  add_alongside(time.alongside, 2, sum);
  add_alongside(time.alongside, 1, sum);
  ASSERT_EQ(sum.size(), 2u);
  EXPECT_NEAR(sum[0].all.value, 15, 1e-9);
}

TEST(CallLanes, WhoHoldsHowManyProcessors) {
  const HardwareProfile machine = machine_of(20);
  CollectiveCall call{.group = Group::tensor};
  EXPECT_NEAR(slowdown_alongside(call, machine), 1.25, 1e-12);
  EXPECT_EQ(slowdown_alongside(call, HardwareProfile{}), 1);
  call.processors = 1;
  EXPECT_NEAR(slowdown_alongside(call, machine), 100.0 / 99, 1e-12);
  EXPECT_EQ(slowdown_alongside({.group = Group::data}, machine), 1);
}

// NCCL's channels on one node, and its rings over the cards between nodes.
TEST(CallLanes, CollectivesOfReplicasHoldChannels) {
  struct Replicas {
    double held;
    int ranks, stride;
    double slowdown;
  };
  for (const Replicas& c :
       {Replicas{24, 8, 0, 100.0 / 76}, Replicas{24, 16, 0, 100.0 / 84}, Replicas{12, 16, 0, 100.0 / 88},
        Replicas{24, 2, 8, 100.0 / 84}, Replicas{24, 1, 0, 1}}) {
    HardwareProfile machine = machine_of(c.held);
    std::get<Accelerator>(machine.kind).constants.network.gpus_per_node = 8;
    const CollectiveCall call{.group = Group::data, .ranks = c.ranks, .stride = c.stride};
    const Layout layout{1, 1, c.ranks};
    EXPECT_NEAR(slowdown_alongside_replicas(call, machine, layout), c.slowdown, 1e-12) << c.ranks;
    EXPECT_EQ(slowdown_alongside_replicas(call, HardwareProfile{}, layout), 1);
  }
}

}  // namespace
}  // namespace plumbline::call_lanes_test
