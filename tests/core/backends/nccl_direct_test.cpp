// Messages of the NCCL communicator between ranks without a channel, and communicators of some ranks.
#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "tests/core/backends/fake_gpu/nccl_rank.hpp"

namespace plumbline::nccl_direct_test {
namespace {

using namespace fake;

NcclOptions without_channels(const Layout& layout, bool direct) {
  NcclOptions options = Rank::options(layout, Seconds{20}, nullptr, 0, 1);
  options.channels.clear();
  options.direct_messages = direct;
  return options;
}

/// All ranks wait for a message of one neighbour before they wait for their own to leave, at every distance.
TEST(NcclDirect, RanksExchangeMessagesOverTheWorldsCommunicator) {
  const Layout layout = two_by(1, 1);
  MpiCommunicator control(layout);
  NcclCommunicator nccl(layout, control, without_channels(layout, true));
  const int me = control.rank();
  for (int distance = 1; distance < world(); ++distance) {
    const int target = (me + distance) % world();
    const int giver = (me + world() - distance) % world();
    const auto length = [](int from) { return kMany + static_cast<std::size_t>(from); };
    for (int round = 0; round < 2; ++round) {
      OnDevice<int> sent(length(me), 10 * me + round);
      OnDevice<int> received(length(giver), -1);
      Ticket in = nccl.receive(received.matrix(), giver, 0);
      Ticket out = nccl.send(sent.matrix(), target, 0);
      nccl.wait(in);
      EXPECT_EQ(received[0], 10 * giver + round);
      EXPECT_EQ(received[length(giver) - 1], 10 * giver + round);
      nccl.wait(out);
      OnDevice<int> sum(1, 1);  // in order with the communicator's other calls
      nccl.all_reduce(Group::world, sum.matrix(), ReduceOp::sum);
      EXPECT_EQ(sum[0], world());
    }
  }
  EXPECT_EQ(nccl.traffic().messages_sent, 2 * (world() - 1));
  nccl.barrier(Group::world);
}

TEST(NcclDirect, OtherwiseAMessageNeedsAChannel) {
  const Layout layout = two_by(1, 1);
  MpiCommunicator control(layout);
  NcclCommunicator nccl(layout, control, without_channels(layout, false));
  if (world() > 1) {
    OnDevice<int> word(1);
    EXPECT_THROW(nccl.send(word.matrix(), (control.rank() + 1) % world(), 0), Error);
  }
  nccl.barrier(Group::world);
}

TEST(NcclDirect, PoolsHaveCommunicatorsOfTheirOwn) {
  if (world() < 4) GTEST_SKIP() << "needs two pools of two";
  const MpiComm pool = pool_of_first(2);
  const Layout layout{.pipeline = world() / 2};
  MpiOptions of_pool;
  of_pool.world = pool.get();
  MpiCommunicator control(layout, of_pool);
  NcclOptions options = Rank::options(layout, Seconds{20}, nullptr, 0, 1);
  options.world = pool.get();
  NcclCommunicator nccl(layout, control, options);
  const int me = nccl.rank();
  int started = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &started);
  EXPECT_EQ(me, started % 2);
  OnDevice<int> sum(kMany, started);
  nccl.all_reduce(Group::world, sum.matrix(), ReduceOp::sum);
  EXPECT_EQ(sum[kMany - 1], started < 2 ? 1 : 5);
  OnDevice<int> word(1, started);
  Ticket ticket = me == 0 ? nccl.send(word.matrix(), 1, 0) : nccl.receive(word.matrix(), 0, 0);
  nccl.wait(ticket);
  nccl.barrier(Group::world);
  EXPECT_EQ(word[0], started / 2 * 2);
}

}  // namespace
}  // namespace plumbline::nccl_direct_test
