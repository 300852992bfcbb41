// Lanes of the NCCL communicator: what is reduced and gathered beside the computation, and when.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/core/backends/fake_gpu/nccl_rank.hpp"

namespace plumbline::nccl_lanes_test {
namespace {

using namespace fake;

TEST(NcclLanes, SecondaryShardsAreGatheredAmongNeighboursOnALaneOfTheirOwn) {
  if (world() < 4) GTEST_SKIP() << "needs four ranks";
  Layout layout = two_by(1, 1);
  layout.zero_param = 2;
  Rank rank(layout);
  const int me = rank.nccl.rank();
  OnDevice<float> own(kMany, static_cast<float>(me));
  OnDevice<float> unit(2 * kMany, -1.0F);
  OnDevice<float> gradients(kMany, 1.0F);
  Ticket sum = rank.nccl.start_all_reduce(Group::data, gradients.matrix(), ReduceOp::sum);
  rank.finish(rank.nccl.start_all_gather(Group::zero_param, own.matrix(), unit.matrix()));
  rank.nccl.wait(sum);
  EXPECT_EQ(unit[0], static_cast<float>(me / 2 * 2));
  EXPECT_EQ(unit[2 * kMany - 1], static_cast<float>(me / 2 * 2 + 1));
  EXPECT_EQ(gradients[0], static_cast<float>(world()));
  EXPECT_EQ(fake::most_blocks().at("the zero_param group"), NcclBlocks().per_started);
  rank.nccl.barrier(Group::world);
}

TEST(NcclOrder, WhatFollowsWithoutTheHostIsPutInOrderByTheDevice) {
  if (world() < 4) GTEST_SKIP() << "needs four ranks";
  Layout layout = two_by(1, 1);
  layout.optimizer_instance = 2;
  Rank rank(layout);
  const int me = rank.nccl.rank();
  for (int round = 0; round < 3; ++round) {
    OnDevice<float> unit(2 * kMany, static_cast<float>(1 + me + round));
    OnDevice<float> piece(kMany, -1.0F);
    const Ticket scatter =
        rank.nccl.start_reduce_scatter(Group::optimizer_instance, unit.matrix(), piece.matrix());
    rank.finish(rank.nccl.start_all_reduce_after(scatter, {}, Group::between_instances, piece.matrix(),
                                                 ReduceOp::sum));
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    EXPECT_EQ(piece[0], static_cast<float>(10 + 4 * round));
    EXPECT_EQ(piece[kMany - 1], static_cast<float>(10 + 4 * round));
  }
  EXPECT_EQ(fake::most_blocks().at("the between_instances group"), NcclBlocks().per_started);
  rank.nccl.barrier(Group::world);
}

// Computation of 100 ms hides an all-reduce; a rank that comes 60 ms late makes the others wait.
TEST(NcclLanes, NotesWhenCollectivesRanOnTheDeviceAndHowLongItWaited) {
  if (world() < 2) return;
  const Layout layout = two_by(2, 1);
  const DeviceStream compute;
  DeviceLanes lanes;
  MpiCommunicator control(layout);
  NcclOptions options = Rank::options(layout, Seconds{300}, compute.get(), 0, 1);
  options.lanes = &lanes;
  NcclCommunicator nccl(layout, control, options);
  const auto computes = [&](int milliseconds) {
    fake::submit(reinterpret_cast<fake::Stream*>(compute.get()),
                 [=] { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); });
  };
  OnDevice<float> first(kMany, 1);
  OnDevice<float> second(kMany, 1);
  const DeviceEvent base(cudaEventDefault);
  for (const bool late : {false, true}) {
    nccl.barrier(Group::world);
    lanes.clear();
    check_cuda(cudaEventRecord(base.get(), compute.get()), "cudaEventRecord");
    nccl.all_reduce(Group::tensor, first.matrix(), ReduceOp::sum);
    if (late && nccl.rank() % 2 == 0) computes(60);
    Ticket ticket = nccl.start_all_reduce(Group::tensor, second.matrix(), ReduceOp::sum);
    if (!late) computes(100);
    nccl.wait(ticket);
    nccl.barrier(Group::world);  // over MPI
    const std::vector<LaneSpan> spans = lanes.since(base);
    ASSERT_EQ(spans.size(), 2U);
    EXPECT_GE(spans[0].start.value, 0);
    EXPECT_EQ(spans[0].waited, spans[0].end - spans[0].start) << "in the stream of computation";
    for (const LaneSpan& span : spans) {
      EXPECT_EQ(span.group, Group::tensor);
      EXPECT_LE(span.start, span.end);
    }
    EXPECT_GE(spans[1].start.value, spans[0].end.value - 1e-6);
    if (!late) {
      EXPECT_LT(spans[1].waited.value, 0.06);
    } else if (nccl.rank() % 2 == 1) {
      EXPECT_GT(spans[1].waited.value, 0.03);
    }
  }
  Ticket ticket = nccl.start_all_reduce(Group::tensor, second.matrix(), ReduceOp::sum);
  lanes.clear();
  nccl.wait(ticket);  // of an earlier step: forgotten
  nccl.barrier(Group::world);
  EXPECT_TRUE(lanes.since(base).empty());
}

}  // namespace
}  // namespace plumbline::nccl_lanes_test
