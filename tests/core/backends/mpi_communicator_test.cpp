// Messages with collectives, counters, and refusals of the MPI communicator.
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "core/base/error.hpp"
#include "tests/core/backends/mpi_test.hpp"

namespace plumbline::mpi_test::mpi_communicator_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST_P(Collectives, MessagesOfOneTagArriveInOrderAndTagsAreKeptApart) {
  MpiCommunicator communicator({world_size(), 1, 1}, GetParam().options);
  if (world_size() < 2) return;
  const int next = (communicator.rank() + 1) % world_size();
  const int previous = (communicator.rank() + world_size() - 1) % world_size();
  constexpr int kMessages = 20;
  std::vector<Buffer> out;
  std::vector<Ticket> sends;
  out.reserve(kMessages);
  sends.reserve(kMessages);
  for (int i = 0; i < kMessages; ++i) {
    out.push_back(Buffer::random(DType::fp32, 1 + i * 37, communicator.rank(), static_cast<unsigned>(i)));
  }
  for (int i = 0; i < kMessages; ++i)
    sends.push_back(communicator.send(out[static_cast<std::size_t>(i)].matrix(), next, i % 2));
  for (int tag : {1, 0}) {  // the other way round than they were sent
    for (int i = tag; i < kMessages; i += 2) {
      Buffer in(DType::fp32, 1 + i * 37);
      Ticket ticket = communicator.receive(in.matrix(), previous, tag);
      communicator.wait(ticket);
      EXPECT_TRUE(in.bytes ==
                  Buffer::random(DType::fp32, 1 + i * 37, previous, static_cast<unsigned>(i)).bytes);
    }
  }
  for (Ticket& ticket : sends) communicator.wait(ticket);
  communicator.barrier(Group::world);
}

TEST(MpiCommunicator, ReductionRunsWhileMessagesMove) {
  MpiCommunicator communicator({1, 1, world_size()});
  Buffer large(DType::bf16, 300'001);
  for (std::int64_t i = 0; i < large.elements(); ++i) large.set(i, 0.5);
  Ticket reduction = communicator.start_all_reduce(Group::data, large.matrix(), ReduceOp::sum);
  if (world_size() > 1) {
    const int peer = communicator.rank() ^ 1;
    if (peer < world_size()) {
      Buffer mine = Buffer::random(DType::fp32, 50'000, communicator.rank(), 1);
      Buffer theirs(DType::fp32, 50'000);
      Ticket send = communicator.send(mine.matrix(), peer, 5);
      Ticket receive = communicator.receive(theirs.matrix(), peer, 5);
      communicator.progress();
      communicator.wait(receive);
      communicator.wait(send);
      EXPECT_TRUE(theirs.bytes == Buffer::random(DType::fp32, 50'000, peer, 1).bytes);
    }
  }
  communicator.wait(reduction);
  EXPECT_EQ(large.get(300'000), 0.5 * world_size());
}

/// The first rank's message leaves when its last reduction is done. So the others, who wait for it, must have
/// started their part of the reductions meanwhile.
TEST_P(Collectives, AReductionFollowsAGatherByItself) {
  Layout layout{1, world_size(), 1};
  layout.vocab_parallel = true;
  MpiCommunicator communicator(layout, GetParam().options);
  const int n = world_size();
  constexpr int kRounds = 3;
  std::vector<Buffer> gathered(kRounds, Buffer(DType::fp32, n));
  std::vector<Buffer> reduced(kRounds, Buffer(DType::fp32, 100));
  std::vector<Ticket> tickets;
  std::vector<int> order;
  for (int round = 0; round < kRounds; ++round) {
    const auto at = static_cast<std::size_t>(round);
    Matrix whole = gathered[at].matrix();
    const Matrix mine(whole.at(0, communicator.rank()), 1, 1, DType::fp32);
    gathered[at].set(communicator.rank(), communicator.rank() + round);
    const Ticket gather = communicator.start_all_gather(Group::vocab_statistics, mine, whole);
    const auto prepare = [&, round, at] {
      order.push_back(round);
      double sum = 0;
      for (int i = 0; i < n; ++i) sum += gathered[at].get(i);
      for (int i = 0; i < 100; ++i) reduced[at].set(i, sum);
    };
    tickets.push_back(communicator.start_all_reduce_after(gather, prepare, Group::vocab_gradient,
                                                          reduced[at].matrix(), ReduceOp::sum));
  }
  Buffer word(DType::fp32, 1);
  if (communicator.rank() == 0) {
    for (auto ticket = tickets.rbegin(); ticket != tickets.rend(); ++ticket) communicator.wait(*ticket);
    for (int to = 1; to < n; ++to) {
      Ticket send = communicator.send(word.matrix(), to, 0);
      communicator.wait(send);
    }
  } else {
    Ticket receive = communicator.receive(word.matrix(), 0, 0);
    communicator.wait(receive);
    for (Ticket& ticket : tickets) communicator.wait(ticket);
  }
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  for (int round = 0; round < kRounds; ++round) {
    const double sum = n * (n - 1) / 2.0 + n * round;
    EXPECT_EQ(reduced[static_cast<std::size_t>(round)].get(99), sum * n);
  }
  EXPECT_EQ(communicator.traffic().of(Group::vocab_gradient).calls, n > 1 ? kRounds : 0);
}

TEST_P(Collectives, AStartedBroadcastLeavesTheRootItsBuffer) {
  Layout layout{1, world_size(), 1};
  layout.vocab_parallel = true;
  MpiCommunicator communicator(layout, GetParam().options);
  const int root = world_size() - 1;
  Buffer buffer = Buffer::random(DType::bf16, 1001, communicator.rank(), 3);
  Ticket ticket = communicator.start_broadcast(Group::vocab_hidden, root, buffer.matrix());
  if (communicator.rank() == root) {
    EXPECT_TRUE(buffer.bytes == Buffer::random(DType::bf16, 1001, root, 3).bytes);
  }
  communicator.wait(ticket);
  EXPECT_TRUE(buffer.bytes == Buffer::random(DType::bf16, 1001, root, 3).bytes);
  EXPECT_THROW(communicator.start_broadcast(Group::vocab_hidden, world_size(), buffer.matrix()), Error);
}

/// A message without a receive yet must not keep progress() from driving a reduction.
TEST(MpiCommunicator, ProgressGoesOnBesideAnUnexpectedMessage) {
  if (world_size() < 2) return;
  MpiCommunicator communicator({1, 1, world_size()});
  int pid = static_cast<int>(::getpid());
  MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const std::string done = testing::TempDir() + "/plumbline_progress." + std::to_string(pid);
  Buffer early(DType::fp32, 4);
  Buffer large(DType::fp32, 300'000);
  for (std::int64_t i = 0; i < large.elements(); ++i) large.set(i, 1);
  Ticket message;
  if (communicator.rank() == 1) message = communicator.send(early.matrix(), 0, 9);
  communicator.barrier(Group::world);
  Ticket reduction = communicator.start_all_reduce(Group::data, large.matrix(), ReduceOp::sum);
  if (communicator.rank() == 0) {
    const auto start = std::chrono::steady_clock::now();
    while (::access(done.c_str(), F_OK) != 0) {
      communicator.progress();
      ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(300));
    }
    std::remove(done.c_str());
    message = communicator.receive(early.matrix(), 1, 9);
  }
  communicator.wait(reduction);
  if (communicator.rank() == 1) std::ofstream(done).put('.');
  communicator.wait(message);
  EXPECT_EQ(large.get(299'999), world_size());
}

TEST(MpiCommunicator, CountsWholeBuffersByGroup) {
  MpiCommunicator communicator({world_size(), 1, 1});
  const auto ranks = static_cast<std::int64_t>(world_size());
  Buffer part(DType::bf16, 10);
  Buffer whole(DType::bf16, 10 * ranks);
  communicator.all_reduce(Group::world, part.matrix(), ReduceOp::sum);
  Ticket started = communicator.start_all_reduce(Group::world, part.matrix(), ReduceOp::sum);
  communicator.wait(started);
  communicator.all_gather(Group::tensor, part.matrix(), whole.matrix());
  started = communicator.start_all_gather(Group::tensor, part.matrix(), whole.matrix());
  communicator.wait(started);
  communicator.reduce_scatter(Group::tensor, whole.matrix(), part.matrix());
  communicator.broadcast(Group::world, 0, part.matrix());
  communicator.all_gather(Group::data, part.matrix(), part.matrix());  // alone in it: nothing moves
  communicator.all_reduce(Group::mirror, part.matrix(), ReduceOp::max);
  const Traffic& traffic = communicator.traffic();
  const std::int64_t counted = ranks > 1 ? 1 : 0;
  EXPECT_EQ(traffic.of(Group::world).calls, 3 * counted);
  EXPECT_EQ(traffic.of(Group::world).all_reduced.value, 40 * counted);
  EXPECT_EQ(traffic.of(Group::world).broadcast.value, 20 * counted);
  EXPECT_EQ(traffic.of(Group::tensor).calls, 3 * counted);
  EXPECT_EQ(traffic.of(Group::tensor).all_gathered.value, 40 * ranks * counted);
  EXPECT_EQ(traffic.of(Group::tensor).reduce_scattered.value, 20 * ranks * counted);
  for (const Group alone : {Group::data, Group::pipeline, Group::mirror, Group::embedding}) {
    EXPECT_EQ(traffic.of(alone).calls, 0) << name_of(alone);
  }
  EXPECT_EQ(traffic.messages_sent, 0);
  if (world_size() < 2) return;
  Ticket ticket = communicator.rank() == 0   ? communicator.send(part.matrix(), 1, 0)
                  : communicator.rank() == 1 ? communicator.receive(part.matrix(), 0, 0)
                                             : Ticket{};
  communicator.wait(ticket);
  EXPECT_EQ(communicator.traffic().messages_sent, communicator.rank() == 0 ? 1 : 0);
  EXPECT_EQ(communicator.traffic().point_to_point_sent.value, communicator.rank() == 0 ? 20 : 0);
}

/// Each adds, gathers and sends as often as it likes, in a layout and with ranks of its own.
TEST(MpiCommunicator, TwoPoolsWorkBesideEachOther) {
  const int first = (world_size() + 1) / 2;
  const MpiComm pool = pool_of_first(first);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const bool is_first = rank < first;
  const int ranks = is_first ? first : world_size() - first;
  MpiOptions options;
  options.world = pool.get();
  EXPECT_THROW(MpiCommunicator({1, 1, ranks + 1}, options), InputError);
  MpiCommunicator communicator(is_first ? Layout{ranks, 1, 1} : Layout{1, 1, ranks}, options);
  EXPECT_EQ(communicator.rank(), is_first ? rank : rank - first);
  for (int turn = 0; turn < (is_first ? 3 : 5); ++turn) {
    std::int32_t sum = rank;
    communicator.all_reduce(Group::world, Matrix(&sum, 1, 1, DType::int32), ReduceOp::sum);
    int expected = 0;
    for (int i = 0; i < ranks; ++i) expected += is_first ? i : first + i;
    EXPECT_EQ(sum, expected);
    if (ranks == 1) continue;
    std::int32_t out = 100 * turn + rank, in = -1;
    const int next = (communicator.rank() + 1) % ranks, previous = (communicator.rank() + ranks - 1) % ranks;
    Ticket arrives = communicator.receive(Matrix(&in, 1, 1, DType::int32), previous, 0);
    Ticket leaves = communicator.send(Matrix(&out, 1, 1, DType::int32), next, 0);
    communicator.wait(arrives);
    communicator.wait(leaves);
    EXPECT_EQ(in, 100 * turn + previous + (is_first ? 0 : first));
  }
  EXPECT_EQ(communicator.traffic().messages_sent, ranks == 1 ? 0 : is_first ? 3 : 5);
}

TEST(MpiCommunicator, RefusesWhatCannotBeRight) {
  EXPECT_THAT(([] {
                MpiCommunicator wrong({1, 1, world_size() + 1});
              }),
              ThrowsMessage<InputError>(HasSubstr("started ranks")));
  MpiCommunicator communicator({1, 1, world_size()});
  Buffer buffer(DType::fp32, 12);
  const Matrix strided(buffer.bytes.data(), 2, 3, 6, DType::fp32);
  EXPECT_THROW(communicator.all_reduce(Group::world, strided, ReduceOp::sum), Error);
  EXPECT_THROW(communicator.send(buffer.matrix(), communicator.rank(), 0), Error);
  EXPECT_THROW(communicator.receive(buffer.matrix(), world_size(), 0), Error);
  EXPECT_THROW(communicator.broadcast(Group::world, world_size(), buffer.matrix()), Error);
  Buffer wrong(DType::fp32, 12 * world_size() + 1);
  EXPECT_THROW(communicator.all_gather(Group::world, buffer.matrix(), wrong.matrix()), Error);
  EXPECT_THROW(communicator.reduce_scatter(Group::world, wrong.matrix(), buffer.matrix()), Error);
}

TEST(MpiCommunicator, SaysWhenAMessageHasAnotherSizeThanExpected) {
  MpiCommunicator communicator({1, 1, world_size()});
  if (world_size() < 2 || communicator.rank() > 1) return;
  Buffer three(DType::fp32, 3);
  Buffer five(DType::fp32, 5);
  if (communicator.rank() == 0) {
    Ticket first = communicator.send(three.matrix(), 1, 0);
    Ticket second = communicator.send(five.matrix(), 1, 1);
    communicator.wait(first);
    communicator.wait(second);
  } else {
    Ticket longer = communicator.receive(five.matrix(), 0, 0);
    EXPECT_THAT([&] { communicator.wait(longer); },
                ThrowsMessage<Error>(HasSubstr("expected 5 elements from rank 0 with tag 0, but 3 came")));
    Ticket shorter = communicator.receive(three.matrix(), 0, 1);
    EXPECT_THAT([&] { communicator.wait(shorter); }, ThrowsMessage<Error>(HasSubstr("MPI_ERR_TRUNCATE")));
  }
}

TEST(Clock, IsCommonToAllRanks) {
  MpiCommunicator communicator({1, 1, world_size()});
  EXPECT_EQ(communicator.clock_error().value, 0);  // one host
  // The offset measured across hosts agrees with the shared clock within its error bound.
  const ClockOffset measured = measure_clock_offset(MPI_COMM_WORLD);
  EXPECT_LE(std::abs(measured.offset.value), measured.error.value + 1e-9);
  EXPECT_EQ(measured.error.value > 0, world_size() > 1);
}

}  // namespace
}  // namespace plumbline::mpi_test::mpi_communicator_test
