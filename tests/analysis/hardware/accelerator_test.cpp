// Operators and collectives on an accelerator, from its constants; the files that hold them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "analysis/hardware/profiles/profiles.hpp"
#include "core/base/error.hpp"

namespace plumbline::accelerator_test {
namespace {

const Machine& a100() {
  return built_in_profiles().machine("a100-sxm-80gb");
}

TEST(Device, LargeProductsReachTheSharesOfTheProfile) {
  const Device& d = a100().device;
  const double flops = 2.0 * 8192 * 8192 * 8192;
  const double rate = flops / gemm_seconds(d, 8192, 8192, 8192);
  EXPECT_GT(rate, 0.7 * d.peak_16bit);
  EXPECT_LT(rate, d.peak_16bit * d.gemm_share);
}

TEST(Device, MoreWorkNeverTakesLess) {
  const Device& d = a100().device;
  std::mt19937 random(7);
  std::uniform_int_distribution<int> size(1, 6000);
  for (int i = 0; i < 500; ++i) {
    const double m = size(random), n = size(random), k = size(random);
    EXPECT_LE(gemm_seconds(d, m, n, k), gemm_seconds(d, m + 512, n, k) * 1.0000001);
    EXPECT_LE(gemm_seconds(d, m, n, k), gemm_seconds(d, m, n, k + 64));
    EXPECT_GE(gemm_seconds(d, m, n, k), 2 * m * n * k / d.peak_16bit);
  }
}

TEST(Network, RingOfOneNodeIsTheTextbookFormula) {
  const Network& net = a100().network;
  const double bytes = 1e9;
  const double expected =
      net.node_base_s + 2 * 7 * net.node_step_s + 2 * 7.0 / 8 * bytes / net.node_bandwidth;
  EXPECT_NEAR(all_reduce_seconds(net, {8, 1}, bytes), expected, 1e-12);
  EXPECT_EQ(all_reduce_seconds(net, {1, 1}, bytes), 0);
  // An all-reduce moves as much as a reduce-scatter and an all-gather.
  EXPECT_NEAR(all_reduce_seconds(net, {8, 1}, bytes) + net.node_base_s,
              2 * scatter_seconds(net, {8, 1}, bytes), 1e-9);
}

TEST(Network, GroupsThatLeaveTheNodeAreBoundByTheirCards) {
  const Network& net = a100().network;
  // Data parallel with tensor parallel 8: one rank per node, one card each.
  EXPECT_GT(all_reduce_seconds(net, {16, 8}, 1e9), 2 * 15.0 / 16 * 1e9 / net.nic_bandwidth);
  // Without tensor parallelism all eight cards of a node carry the ring.
  EXPECT_LT(all_reduce_seconds(net, {16, 1}, 1e9), all_reduce_seconds(net, {16, 8}, 1e9) / 4);
  EXPECT_EQ(ranks_per_node(net, {16, 4}), 2);
}

// NCCL has trees for all-reduces only: a ring's latency grows with every node.
TEST(Network, LatencyOfScattersGrowsWithTheNodes) {
  const Network& net = a100().network;
  for (const int nodes : {2, 16, 128}) {
    EXPECT_NEAR(scatter_seconds(net, {nodes, 8}, 0), net.nic_base_s + (nodes - 1) * net.nic_step_s, 1e-12);
    EXPECT_LE(all_reduce_seconds(net, {nodes, 8}, 0), net.nic_base_s + 2 * 15 * net.nic_step_s);
    // Eight ranks per node: seven more steps per node, over the fast link.
    EXPECT_NEAR(scatter_seconds(net, {8 * nodes, 1}, 0),
                net.nic_base_s + 7 * nodes * net.node_step_s + (nodes - 1) * net.nic_step_s, 1e-12);
    EXPECT_LE(all_reduce_seconds(net, {8 * nodes, 1}, 0),
              net.nic_base_s + 2 * (7 * net.node_step_s + 15 * net.nic_step_s));
  }
}

TEST(Profiles, EveryMachineAndGenerationIsUsable) {
  EXPECT_GE(built_in_profiles().machines.size(), 9u);
  EXPECT_GE(built_in_profiles().software.size(), 8u);
  try {
    (void)built_in_profiles().machine("a100-sxm-81gb");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a100-sxm-80gb"));
  }
}

TEST(Profiles, DamagedFilesAreRefused) {
  const char* const kDamaged[] = {
      "",
      "[]",
      "{\"machines\": {}}",
      R"({"machines": {"x": {"constants": {}}}, "software": {}})",
      R"({"machines": {"x": {"like": "x", "constants": {}}}, "software": {}})",
      R"({"machines": {}, "software": {"s": {"constants": {"dropout": {"value": 3, "source": "a"}}}}})",
      R"({"machines": {}, "software": {"s": {"constants": {"dropout": {"value": true}}}}})",
      R"({"machines": {}, "software": {"s": {"constants": {"step_s": {"value": -1, "source": "a"}}}}})",
      R"({"machines": {}, "software": {"s": {"constants": {"nonsense": {"value": 1, "source": "a"}}}}})",
      R"({"machines": {}, "software": {"x": {"constants": {"schedules": {"value": ["zb"],)"
      R"( "source": "s"}}}}})",
      R"({"machines": {}, "software": {"x": {"constants": {"schedules": {"value": "1f1b",)"
      R"( "source": "s"}}}}})",
  };
  for (const char* text : kDamaged) EXPECT_THROW(parse_profiles(text, "file"), InputError) << text;
}

}  // namespace
}  // namespace plumbline::accelerator_test
