// The NCCL communicator when a rank stops or an error comes: nothing waits for ever, and the rank is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/base/error.hpp"
#include "tests/core/backends/fake_gpu/nccl_rank.hpp"

namespace plumbline::nccl_stops_test {
namespace {

using namespace fake;
using testing::HasSubstr;

TEST(NcclStops, AMessageThatTheScheduleDoesNotHaveIsRefused) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  const Layout layout = two_by(2, 1);
  Rank rank(layout);
  OnDevice<int> word(1);
  EXPECT_THAT([&] { rank.nccl.send(word.matrix(), rank.neighbour(), 0); },
              testing::ThrowsMessage<Error>(HasSubstr("the schedule has no messages from rank")));
  rank.nccl.barrier(Group::world);
}

TEST(NcclStops, AConnectionThatIsNeverMadeEndsTheStart) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  fake::stalls() = true;
  EXPECT_THAT(
      [] { Rank(two_by(1, world()), Seconds{1}); },
      testing::ThrowsMessage<Error>(HasSubstr("ncclAllReduce of the world group: the first one has not")));
  fake::stalls() = false;
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(NcclStops, ARankThatStopsIsNamed) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  const Layout layout = two_by(1, world());
  Rank rank(layout, Seconds{2});
  rank.nccl.barrier(Group::world);
  std::string said;
  if (rank.nccl.rank() != 1) {
    rank.nccl.watchdog().begin_action({ActionType::optimizer, false, 0, 0});
    OnDevice<float> norm(1, 1.0F);
    try {
      Ticket ticket = rank.nccl.start_all_reduce(Group::world, norm.matrix(), ReduceOp::sum);
      rank.nccl.wait(ticket);  // until the watchdog has aborted it
      rank.nccl.barrier(Group::world);
    } catch (const Error& error) {
      said = error.what();
    }
    EXPECT_THAT(said, HasSubstr("ncclAllReduce of the world group (number 2) in action 0OPT0: rank 1 has not "
                                "reached it"));
  }
  EXPECT_THAT(fake::devices_asked(), testing::Each(kDevice));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(NcclStops, ARankThatIsLateAtABarrierIsNamed) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  Rank rank(two_by(1, world()), Seconds{1});
  rank.nccl.barrier(Group::world);
  if (rank.nccl.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(3));
  try {
    rank.nccl.barrier(Group::world);
    rank.nccl.progress();
    EXPECT_EQ(rank.nccl.rank(), 1);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("barrier of the world group (number 2): rank 1 has not reached it"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Operations waiting behind it belong to communicators that cannot be aborted before its own is.
TEST(NcclStops, AMessageThatNeverComesHoldsNothingBackForEver) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  const Layout layout = two_by(1, world());
  const DeviceStream compute;
  Rank rank(layout, Seconds{2}, compute.get());
  rank.nccl.barrier(Group::world);
  if (rank.nccl.rank() != 1) {
    OnDevice<int> word(1);
    OnDevice<float> norm(1, 1.0F);
    rank.receive(word.matrix(), 1, 0);
    rank.finish(rank.nccl.start_all_reduce(Group::world, norm.matrix(), ReduceOp::sum));
    EXPECT_THAT([&] { rank.nccl.barrier(Group::world); },
                testing::ThrowsMessage<Error>(HasSubstr("ncclRecv of messages from rank 1")));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(NcclStops, AnErrorDoesNotWaitForWhatNeverComes) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  const DeviceStream compute;
  OnDevice<int> word(1);
  OnDevice<float> norm(1, 1.0F);
  const auto fail = [&] {
    Rank rank(two_by(1, world()), Seconds{300}, compute.get());
    rank.nccl.barrier(Group::world);
    if (rank.nccl.rank() != 1) {
      rank.receive(word.matrix(), 1, 0);
      rank.nccl.start_all_reduce(Group::world, norm.matrix(), ReduceOp::sum);
    }
    throw OutOfMemory("in the middle");
  };
  EXPECT_THROW(fail(), OutOfMemory);
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace plumbline::nccl_stops_test
