// The emulated communicator: payloads stay untouched, order is real, times are the links'.
#include "core/backends/mpi/emulated_communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"

namespace plumbline::emulated_communicator_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

int world_size() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

/// Memory that does not exist: touching it would end the test.
Matrix nowhere(std::int64_t elements, DType type = DType::bf16) {
  return {reinterpret_cast<void*>(4096), 1, elements, type};  // NOLINT: never dereferenced
}

/// A byte of a message takes 1 us and then 3 ms to arrive; a byte of a collective takes 10 us.
EmulatedLinks slow_links() {
  return {
      [](Bytes bytes, int, int) {
        return EmulatedTransfer{{1e-6 * static_cast<double>(bytes.value)}, {3e-3}};
      },
      [](const EmulatedCollective& call) { return Seconds{10e-6 * static_cast<double>(call.bytes.value)}; }};
}

constexpr double kEarly = 1.5e-3;  // lateness that a clock may make up for
constexpr double kLate = 10;       // limit for hangs; a crowded machine may be late by seconds

/// Rank 0's clock, so that spans between ranks can be measured.
Seconds common_start(EmulatedCommunicator& communicator) {
  communicator.barrier(Group::world);
  double start = communicator.now().value;
  MPI_Bcast(&start, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return {start};
}

TEST(EmulatedCommunicator, CountsTheTrafficOfTheRealOne) {
  const int n = world_size();
  for (const Layout& layout : {Layout{n, 1, 1}, Layout{1, n, 1}, Layout{1, 1, n}}) {
    EmulatedClock clock(0);
    EmulatedCommunicator emulated(layout, clock, {});
    MpiCommunicator real(layout);
    std::vector<float> host(64 * static_cast<std::size_t>(n));
    const auto exercise = [&](Communicator& communicator, bool memory) {
      const auto matrix = [&](std::int64_t elements) {
        return memory ? Matrix(host.data(), 1, elements, DType::fp32) : nowhere(elements, DType::fp32);
      };
      for (const Group group : {Group::world, Group::tensor, Group::data, Group::model, Group::mirror}) {
        const auto members = std::ssize(layout.members(group, communicator.rank()));
        const Matrix whole = matrix(7 * members);
        const Matrix part(whole.at(0, 0), 1, 7, DType::fp32);
        const Matrix outside(memory ? static_cast<void*>(host.data() + 32 * n) : part.data, 1, 7,
                             DType::fp32);
        communicator.all_reduce(group, part, ReduceOp::sum);
        Ticket ticket = communicator.start_all_reduce(group, whole, ReduceOp::max);
        communicator.wait(ticket);
        communicator.all_gather(group, outside, whole);
        communicator.reduce_scatter(group, whole, outside);
        ticket = communicator.start_all_gather(group, outside, whole);
        communicator.progress();
        communicator.wait(ticket);
        ticket = communicator.start_reduce_scatter(group, whole, outside);
        communicator.wait(ticket);
        ticket = communicator.start_reduce(group, layout.members(group, communicator.rank()).back(), part,
                                           outside);
        communicator.wait(ticket);
        communicator.broadcast(group, layout.members(group, communicator.rank()).front(), part);
        communicator.barrier(group);
      }
      if (n == 1) return;
      const int next = (communicator.rank() + 1) % n;
      const int previous = (communicator.rank() + n - 1) % n;
      Ticket send = communicator.send(matrix(5), next, 3);
      Ticket receive = communicator.receive(
          memory ? Matrix(host.data() + 40 * n, 1, 5, DType::fp32) : matrix(5), previous, 3);
      communicator.wait(receive);
      communicator.wait(send);
    };
    exercise(emulated, false);
    exercise(real, true);
    for (int i = 0; i < kGroups; ++i) {
      const GroupTraffic& a = emulated.traffic().groups[static_cast<std::size_t>(i)];
      const GroupTraffic& b = real.traffic().groups[static_cast<std::size_t>(i)];
      EXPECT_EQ(a.calls, b.calls);
      EXPECT_EQ(a.all_reduced, b.all_reduced);
      EXPECT_EQ(a.all_gathered, b.all_gathered);
      EXPECT_EQ(a.reduce_scattered, b.reduce_scattered);
      EXPECT_EQ(a.broadcast, b.broadcast);
    }
    EXPECT_EQ(emulated.traffic().messages_sent, real.traffic().messages_sent);
    EXPECT_EQ(emulated.traffic().point_to_point_sent, real.traffic().point_to_point_sent);
  }
}

TEST(EmulatedCommunicator, MessagesFollowEachOtherOnTheirLink) {
  if (world_size() < 2) return;
  EmulatedClock clock(1);
  EmulatedCommunicator communicator({1, world_size(), 1}, clock, slow_links());
  const Seconds start = common_start(communicator);
  if (communicator.rank() == 0) {
    Ticket first = communicator.send(nowhere(2500), 1, 0);  // 5 ms on the link
    Ticket second = communicator.send(nowhere(2500), 1, 0);
    EXPECT_LT((communicator.now() - start).value, 5e-3 + kLate);
    communicator.wait(first);  // not before it has arrived
    EXPECT_GE((communicator.now() - start).value, 8e-3 - kEarly);
    communicator.wait(second);
  } else if (communicator.rank() == 1) {
    for (const double arrival : {8e-3, 13e-3}) {
      Ticket ticket = communicator.receive(nowhere(2500), 0, 0);
      communicator.wait(ticket);
      const double elapsed = (communicator.now() - start).value;
      EXPECT_GE(elapsed, arrival - kEarly);
      EXPECT_LT(elapsed, arrival + kLate);
    }
  }
  communicator.barrier(Group::world);
}

TEST(EmulatedCommunicator, ASendWaitsForItsReceiver) {
  if (world_size() < 2) return;
  EmulatedClock clock(1);
  EmulatedCommunicator communicator({1, world_size(), 1}, clock, slow_links());
  const Seconds start = common_start(communicator);
  if (communicator.rank() == 0) {
    Ticket ticket = communicator.send(nowhere(1), 1, 0);
    communicator.wait(ticket);
    EXPECT_GE((communicator.now() - start).value, 20e-3 - kEarly);
  } else if (communicator.rank() == 1) {
    clock.advance({20e-3});
    (void)communicator.now();
    Ticket ticket = communicator.receive(nowhere(1), 0, 0);
    communicator.wait(ticket);
  }
  communicator.barrier(Group::world);
}

TEST(EmulatedCommunicator, OnAVirtualClockASendWaitsUntilItsReceiverHasCome) {
  if (world_size() < 2) return;
  EmulatedClock clock = EmulatedClock::of_virtual_time();
  EmulatedCommunicator communicator({1, world_size(), 1}, clock, slow_links());
  if (communicator.rank() == 0) {
    Ticket first = communicator.send(nowhere(500), 1, 0);  // 1 ms on the link, and 3 ms
    Ticket second = communicator.send(nowhere(500), 1, 0);
    communicator.wait(first);
    EXPECT_NEAR(communicator.now().value, 4e-3, 1e-12);
    communicator.wait(second);
    EXPECT_NEAR(communicator.now().value, 20e-3, 1e-12);
  } else if (communicator.rank() == 1) {
    Ticket first = communicator.receive(nowhere(500), 0, 0);  // asked for at once
    clock.advance({20e-3});
    Ticket second = communicator.receive(nowhere(500), 0, 0);
    communicator.wait(first);
    communicator.wait(second);
    EXPECT_NEAR(communicator.now().value, 20e-3, 1e-12);
  }
  communicator.barrier(Group::world);
}

TEST(EmulatedCommunicator, CollectivesBeginWithTheirLastMemberAndRunBesideTheWork) {
  const int n = world_size();
  if (n < 2) return;
  EmulatedClock clock(0.5);  // two emulated seconds per second
  EmulatedCommunicator communicator({n, 1, 1}, clock, slow_links());
  const Seconds start = common_start(communicator);
  if (communicator.rank() == n - 1) clock.advance({30e-3});
  communicator.all_reduce(Group::tensor, nowhere(1000), ReduceOp::sum);  // 20 ms
  EXPECT_GE((communicator.now() - start).value, 50e-3 - 2 * kEarly);
  communicator.barrier(Group::world);
  const Seconds second = communicator.now();
  Ticket first = communicator.start_all_reduce(Group::tensor, nowhere(1000), ReduceOp::sum);
  Ticket next = communicator.start_all_reduce(Group::tensor, nowhere(1000), ReduceOp::sum);
  clock.advance({35e-3});
  communicator.wait(next);  // out of order; both were in progress while the rank worked
  communicator.wait(first);
  const double elapsed = (communicator.now() - second).value;
  EXPECT_GE(elapsed, 40e-3 - 4 * kEarly);
  EXPECT_LT(elapsed, 40e-3 + 2 * kLate);
}

void expect_spans(const std::vector<LaneSpan>& found, const std::vector<LaneSpan>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].group, wanted[i].group);
    EXPECT_NEAR(found[i].start.value, wanted[i].start.value, 1e-12) << i;
    EXPECT_NEAR(found[i].end.value, wanted[i].end.value, 1e-12) << i;
    EXPECT_NEAR(found[i].waited.value, wanted[i].waited.value, 1e-12) << i;
  }
}

// A collective of 1000 elements takes 20 ms from when the last rank has come, 30 ms late.
TEST(EmulatedCommunicator, NotesWhenCollectivesRanAndHowLongTheyWereWaitedFor) {
  const int n = world_size();
  if (n < 2) return;
  EmulatedClock clock = EmulatedClock::of_virtual_time();
  LaneNotes notes;
  EmulatedCommunicator communicator({n, 1, 1}, clock, slow_links(), &notes);
  communicator.all_reduce(Group::tensor, nowhere(1000), ReduceOp::sum);
  notes.step_begins(1);  // forgets it
  communicator.barrier(Group::world);
  const Seconds origin = communicator.now();
  if (communicator.rank() == n - 1) clock.advance({30e-3});
  communicator.all_reduce(Group::tensor, nowhere(1000), ReduceOp::sum);
  Ticket first = communicator.start_all_reduce(Group::tensor, nowhere(1000), ReduceOp::sum);
  Ticket next = communicator.start_all_reduce(Group::tensor, nowhere(1000), ReduceOp::sum);
  TicketTimes times;
  Ticket watched = communicator.start_all_reduce(Group::model, nowhere(1000), ReduceOp::sum);
  communicator.watch(watched, times);
  clock.advance({25e-3});
  communicator.wait(first);
  communicator.wait(next);
  communicator.wait(watched);
  std::vector<LaneSpan> found;
  notes.add_lanes(origin, found);
  expect_spans(found, {{Group::tensor, {30e-3}, {50e-3}, {20e-3}},
                       {Group::tensor, {50e-3}, {70e-3}, {}},
                       {Group::tensor, {70e-3}, {90e-3}, {15e-3}}});
}

// 2500 elements, 5 ms on the link and 3 ms more, 6 of them behind computation; messages between stages are
// actions.
TEST(EmulatedCommunicator, NotesMessagesRoundARing) {
  const int n = world_size();
  if (n < 2) return;
  for (const bool ring : {true, false}) {
    EmulatedClock clock = EmulatedClock::of_virtual_time();
    LaneNotes notes;
    Layout layout{1, ring ? 1 : n, ring ? n : 1};
    if (ring) layout.context = n;
    EmulatedCommunicator communicator(layout, clock, slow_links(), &notes);
    const int rank = communicator.rank();
    clock.advance({1e-3});
    Ticket sent = communicator.send(nowhere(2500), (rank + 1) % n, 0);
    Ticket received = communicator.receive(nowhere(2500), (rank + n - 1) % n, 0);
    clock.advance({6e-3});
    communicator.wait(received);
    communicator.wait(sent);
    std::vector<LaneSpan> found;
    notes.add_lanes({}, found);
    expect_spans(found, ring ? std::vector<LaneSpan>{{Group::context, {1e-3}, {9e-3}, {2e-3}}}
                             : std::vector<LaneSpan>());
  }
}

TEST(EmulatedCommunicator, AReductionThatFollowsBeginsWhereTheFirstCallEnds) {
  if (world_size() < 2) return;
  EmulatedClock clock(0);
  Layout layout{1, world_size(), 1};
  layout.vocab_parallel = true;
  EmulatedCommunicator communicator(layout, clock, slow_links());
  bool prepared = false;
  const Ticket gather = communicator.start_all_gather(Group::vocab_statistics, nowhere(100, DType::fp32),
                                                      nowhere(100 * world_size(), DType::fp32));
  Ticket reduction = communicator.start_all_reduce_after(
      gather, [&] { prepared = true; }, Group::vocab_gradient, nowhere(500), ReduceOp::sum);
  EXPECT_TRUE(prepared);
  Ticket hidden = communicator.start_broadcast(Group::vocab_hidden, 0, nowhere(50));
  communicator.wait(hidden);
  communicator.wait(reduction);
  const GroupTraffic& reduced = communicator.traffic().of(Group::vocab_gradient);
  EXPECT_EQ(reduced.calls, 1);
  EXPECT_EQ(reduced.all_reduced.value, 1000);
  EXPECT_EQ(communicator.traffic().of(Group::vocab_hidden).broadcast.value, 100);
}

TEST(EmulatedCommunicator, TheTimesOfFollowersAddUp) {
  if (world_size() < 2) return;
  EmulatedClock clock(1);
  Layout layout{1, world_size(), 1};
  layout.vocab_parallel = true;
  EmulatedCommunicator communicator(layout, clock, slow_links());
  const Seconds start = common_start(communicator);
  const Ticket gather = communicator.start_all_gather(Group::vocab_statistics, nowhere(500 / world_size()),
                                                      nowhere(500 / world_size() * world_size()));
  Ticket reduction = communicator.start_all_reduce_after(
      gather, [] {}, Group::vocab_gradient, nowhere(500), ReduceOp::sum);
  communicator.wait(reduction);
  const double took = (communicator.now() - start).value;
  EXPECT_GT(took, 20e-3 - kEarly);  // 10 ms each
  EXPECT_LT(took, 20e-3 + kLate);
}

TEST(EmulatedCommunicator, SaysWhenMembersDisagree) {
  const int n = world_size();
  if (n < 2) return;
  EmulatedClock clock(0);
  EmulatedCommunicator communicator({1, 1, n}, clock, {});
  const std::int64_t mine = communicator.rank() == 0 ? 10 : 11;
  EXPECT_THAT([&] { communicator.all_reduce(Group::data, nowhere(mine), ReduceOp::sum); },
              ThrowsMessage<Error>(HasSubstr("disagree about a collective")));
  if (communicator.rank() > 1) return;
  if (communicator.rank() == 0) {
    Ticket ticket = communicator.send(nowhere(3), 1, 0);
    communicator.wait(ticket);
  } else {
    Ticket ticket = communicator.receive(nowhere(4), 0, 0);
    EXPECT_THAT([&] { communicator.wait(ticket); }, ThrowsMessage<Error>(HasSubstr("expected 8 bytes")));
  }
}

TEST(EmulatedCommunicator, PoolsHaveTimesOfTheirOwnUntilTheyMeet) {
  const int n = world_size();
  const int first = (n + 1) / 2;
  const MpiComm pool = pool_of_first(first);
  EmulatedClock clock = EmulatedClock::of_virtual_time();
  EmulatedCommunicator all({1, 1, n}, clock, slow_links());
  const bool is_first = all.rank() < first;
  const int ranks = is_first ? first : n - first;
  EmulatedCommunicator own({1, ranks, 1}, clock, slow_links(), nullptr, pool.get());
  EXPECT_EQ(own.rank(), is_first ? all.rank() : all.rank() - first);
  // 10 us a byte, in the pool's own order; other pools neither wait nor disagree.
  const Seconds start = own.now();
  own.all_reduce(Group::world, nowhere(is_first ? 50 : 200), ReduceOp::sum);
  const double expected = ranks == 1 ? 0 : is_first ? 1e-3 : 4e-3;
  EXPECT_NEAR((own.now() - start).value, expected, 1e-9);
  // The message and its answer are of the pool's ranks.
  if (ranks > 1 && own.rank() < 2) {
    const Matrix buffer = nowhere(100);
    Ticket ticket = own.rank() == 0 ? own.send(buffer, 1, 7) : own.receive(buffer, 0, 7);
    own.wait(ticket);
    EXPECT_NEAR((own.now() - start).value, expected + 3.2e-3, 1e-9);
  }
  all.barrier(Group::world);
  EXPECT_NEAR((all.now() - start).value, n == 4 ? 7.2e-3 : 0, 1e-9);
}

TEST(EmulatedCommunicator, RefusesWhatCannotBeRight) {
  EmulatedClock clock(0);
  const int n = world_size();
  EXPECT_THROW(EmulatedCommunicator({1, 1, n + 1}, clock, {}), InputError);
  EmulatedCommunicator communicator({1, 1, n}, clock, {});
  EXPECT_THROW(communicator.send(nowhere(1), communicator.rank(), 0), Error);
  EXPECT_THROW(communicator.receive(nowhere(1), n, 0), Error);
  EXPECT_THROW(communicator.all_gather(Group::data, nowhere(3), nowhere(3 * n + 1)), Error);
  EXPECT_THROW(communicator.start_reduce_scatter(Group::data, nowhere(3 * n + 1), nowhere(3)), Error);
  EXPECT_THROW(communicator.broadcast(Group::world, n, nowhere(1)), Error);
}

}  // namespace
}  // namespace plumbline::emulated_communicator_test
