// The watchdog over a fake transport: ranks that stop are named, those that are only slow are left
// alone.
#include "core/backends/nccl/watchdog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "core/backends/mpi/mpi_header.hpp"
#include "core/base/error.hpp"

namespace plumbline::watchdog_test {
namespace {

using testing::HasSubstr;
using testing::Not;

using Flag = std::atomic<bool>;

void pause_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// A transport whose operations end when the test ends them.
struct FakeTransport {
  std::atomic<bool> aborted{false};
  std::atomic<bool> gave_up{false};
  std::atomic<bool> broken{false};

  WatchedTransport transport() {
    return {[](const std::shared_ptr<void>& token) { return std::static_pointer_cast<Flag>(token)->load(); },
            [this] { return broken.load() ? std::string("the network is gone") : std::string(); },
            [this] { aborted = true; }, [this](const std::string&) { gave_up = true; }};
  }
};

bool comes_true(const std::atomic<bool>& flag) {
  for (int i = 0; i < 10000 && !flag; ++i) pause_for(0.01);
  return flag;
}

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

std::vector<int> world_ranks() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<int> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
  return ranks;
}

/// Waits for the watchdog's line, at most so long.
std::string failure_within(const Watchdog& watchdog, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
    try {
      watchdog.check();
    } catch (const Error& error) {
      return error.what();
    }
    pause_for(0.01);
  }
  return "";
}

TEST(Watchdog, NamesTheRankThatHasNotCome) {
  WaitBoard board(MPI_COMM_WORLD);
  FakeTransport transport;
  Watchdog watchdog(world_rank(), board, transport.transport(), {Seconds{1}, Seconds{0.01}});
  const int lane = watchdog.add_lane("the data group", world_ranks());
  auto first = std::make_shared<Flag>(true);
  watchdog.started(lane, "ncclAllReduce", first);
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() == 1) {
    watchdog.begin_action({ActionType::forward, false, 1, 3});
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(failure_within(watchdog, 0.5), "");  // it waits for nobody itself
  } else {
    MPI_Barrier(MPI_COMM_WORLD);
    watchdog.begin_action({ActionType::reduce_gradients, false, 0, 0});
    watchdog.started(lane, "ncclAllReduce", std::make_shared<Flag>(false));
    const std::string failure = failure_within(watchdog, 100);
    EXPECT_THAT(failure, HasSubstr("rank " + std::to_string(world_rank()) + " has waited "));
    EXPECT_THAT(failure, HasSubstr(" s for ncclAllReduce of the data group (number 2) in action 0ARG0"));
    EXPECT_THAT(failure, HasSubstr("rank 1 has not reached it (in action 1F3, nothing new from it for"));
    EXPECT_THAT(failure, Not(HasSubstr("rank 2 has not")));
    EXPECT_TRUE(comes_true(transport.aborted));
    EXPECT_FALSE(transport.gave_up);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Watchdog, WhatABlockedLaneHoldsBackIsNotBlamed) {
  WaitBoard board(MPI_COMM_WORLD);
  FakeTransport transport;
  Watchdog watchdog(world_rank(), board, transport.transport(), {Seconds{1}, Seconds{0.01}});
  const int messages = watchdog.add_lane("messages", world_ranks());
  const int data = watchdog.add_lane("the data group", world_ranks());
  // Every rank has reached the all-reduce, but rank 0 alone to the message.
  watchdog.started(data, "ncclAllReduce", std::make_shared<Flag>(false));
  if (world_rank() == 0) watchdog.started(messages, "ncclRecv", std::make_shared<Flag>(false));
  MPI_Barrier(MPI_COMM_WORLD);
  const std::string failure = failure_within(watchdog, 100);
  if (world_rank() == 0) {
    EXPECT_THAT(failure, HasSubstr("for ncclRecv of messages (number 1): rank 1 has not reached it"));
    EXPECT_THAT(failure, Not(HasSubstr("AllReduce")));
  } else {
    EXPECT_THAT(failure,
                HasSubstr("ncclAllReduce of the data group (number 1): all members have started it"));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Watchdog, AProcessThatStopsInTheMiddleIsNamed) {
  WaitBoard board(MPI_COMM_WORLD);
  FakeTransport transport;
  auto watchdog = std::make_unique<Watchdog>(world_rank(), board, transport.transport(),
                                             WatchdogOptions{Seconds{3}, Seconds{0.01}});
  const int lane = watchdog->add_lane("the data group", world_ranks());
  watchdog->started(lane, "ncclAllReduce", std::make_shared<Flag>(false));
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() == 1) {
    watchdog.reset();  // as all threads of a stopped process
  } else {
    EXPECT_THAT(
        failure_within(*watchdog, 100),
        HasSubstr("ncclAllReduce of the data group (number 1): rank 1 has started it, but its process "
                  "has not run for "));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Watchdog, SlowIsNotStuck) {
  WaitBoard board(MPI_COMM_WORLD);
  FakeTransport transport;
  Watchdog watchdog(world_rank(), board, transport.transport(), {Seconds{1.2}, Seconds{0.01}});
  const int lane = watchdog.add_lane("the tensor group", world_ranks());
  std::vector<std::shared_ptr<Flag>> operations;
  for (int i = 0; i < 5; ++i) {
    operations.push_back(std::make_shared<Flag>(false));
    watchdog.started(lane, "ncclAllReduce", operations.back());
  }
  // In all longer than the timeout, but something ends all the time.
  for (const auto& operation : operations) {
    pause_for(0.3);
    *operation = true;
  }
  EXPECT_EQ(failure_within(watchdog, 0.5), "");
  EXPECT_EQ(watchdog.under_way(), 0U);
  EXPECT_FALSE(transport.aborted);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Watchdog, ErrorsInTheBackgroundAreReportedAtOnce) {
  WaitBoard board(MPI_COMM_WORLD);
  FakeTransport transport;
  Watchdog watchdog(world_rank(), board, transport.transport(), {Seconds{100}, Seconds{0.01}});
  watchdog.add_lane("the tensor group", world_ranks());
  EXPECT_EQ(failure_within(watchdog, 0.1), "");
  transport.broken = true;
  EXPECT_EQ(failure_within(watchdog, 100), "rank " + std::to_string(world_rank()) + ": the network is gone");
  EXPECT_TRUE(comes_true(transport.aborted));
  MPI_Barrier(MPI_COMM_WORLD);
}

/// A call of NCCL holds the lock that aborting wants, or aborting itself never returns.
TEST(Watchdog, EndsAProcessThatHangsAfterTheFailure) {
  WaitBoard board(MPI_COMM_WORLD);
  for (const bool noticed : {false, true}) {
    FakeTransport transport;
    WatchedTransport hanging = transport.transport();
    hanging.abort = [&transport] {
      while (!transport.gave_up) pause_for(0.01);
    };
    Watchdog watchdog(world_rank(), board, hanging, {Seconds{100}, Seconds{0.01}, Seconds{0.1}});
    watchdog.add_lane("the tensor group", world_ranks());
    transport.broken = true;
    if (noticed) {
      EXPECT_NE(failure_within(watchdog, 100), "");
    }
    EXPECT_TRUE(comes_true(transport.gave_up)) << noticed;
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(WaitBoard, LongNamesAreCut) {
  WaitBoard board(MPI_COMM_WORLD);
  board.set_action(std::string(100, 'x'));
  EXPECT_EQ(action_of(board.mine()), std::string(31, 'x'));
  board.set_action("1F3");
  EXPECT_EQ(action_of(board.mine()), "1F3");
  ASSERT_NE(board.of(world_rank()), nullptr);
  EXPECT_EQ(action_of(*board.of(world_rank())), "1F3");
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace plumbline::watchdog_test
