// The MPI communicator against serial references, over every layout of the ranks it was started with.
#include "core/backends/mpi/mpi_communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>

#include "core/error.hpp"

namespace plumbline {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

int world_size() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

std::vector<Layout> layouts() {
  std::vector<Layout> found;
  const int n = world_size();
  for (int t = 1; t <= n; ++t) {
    for (int p = 1; t * p <= n; ++p) {
      if (n % (t * p) == 0) found.push_back({t, p, n / (t * p), t % 2 == 0 ? 2 : 1});
    }
  }
  return found;
}

float value_of(std::uint16_t bf16) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16);
}

/// IEEE binary16 from its definition.
double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) magnitude = fraction == 0 ? INFINITY : NAN;
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/// The half of a value that is one exactly (normal, or zero).
std::uint16_t half_of(double value) {
  if (value == 0) return 0;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // in [0.5, 1)
  const auto bits =
      static_cast<std::uint16_t>((exponent + 14) << 10 | (static_cast<int>(fraction * 2048) - 1024));
  return value < 0 ? bits | 0x8000 : bits;
}

/// A buffer of one element type that any rank can make for any rank: contents follow from (rank, seed).
struct Buffer {
  DType dtype;
  std::vector<std::byte> bytes;

  Buffer(DType type, std::int64_t elements)
      : dtype(type), bytes(static_cast<std::size_t>(elements * size_of(type))) {}
  static Buffer random(DType type, std::int64_t elements, int rank, unsigned seed) {
    Buffer buffer(type, elements);
    std::mt19937 generator(seed * 1000 + static_cast<unsigned>(rank));
    for (std::int64_t i = 0; i < elements; ++i) {
      const auto whole = static_cast<std::int32_t>(generator() % 2001) - 1000;
      buffer.set(i, type == DType::int32 ? whole : static_cast<double>(whole) / 64);
    }
    return buffer;
  }
  std::int64_t elements() const { return static_cast<std::int64_t>(bytes.size()) / size_of(dtype); }
  Matrix matrix() { return {bytes.data(), 1, elements(), dtype}; }
  template <class T>
  T& as(std::int64_t i) {
    return reinterpret_cast<T*>(bytes.data())[i];
  }
  double get(std::int64_t i) {
    switch (dtype) {
      case DType::fp32:
        return as<float>(i);
      case DType::int32:
        return as<std::int32_t>(i);
      case DType::uint8:
        return as<std::uint8_t>(i);
      case DType::bf16:
        return value_of(as<std::uint16_t>(i));
      case DType::fp16:
        return half_value(as<std::uint16_t>(i));
    }
    return 0;
  }
  void set(std::int64_t i, double value) {
    switch (dtype) {
      case DType::fp32:
        as<float>(i) = static_cast<float>(value);
        break;
      case DType::int32:
        as<std::int32_t>(i) = static_cast<std::int32_t>(value);
        break;
      case DType::uint8:
        as<std::uint8_t>(i) = static_cast<std::uint8_t>(value);
        break;
      case DType::bf16:
        as<std::uint16_t>(i) =
            static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);
        break;
      case DType::fp16:
        as<std::uint16_t>(i) = half_of(value);
        break;
    }
  }
};

/// Sums of n numbers of at most 16 in magnitude, rounded up to n times to a 16-bit type.
double tolerance(DType type, std::size_t members) {
  if (type == DType::bf16) return static_cast<double>(members * members) * 16 / 256;
  if (type == DType::fp16) return static_cast<double>(members * members) * 16 / 2048;
  return 0;  // the values are multiples of 1/64: fp32 adds them exactly
}

/// The members of one group of this rank, to compare their results on.
class Peers {
 public:
  Peers(const Communicator& communicator, Group group) : group_(group) {
    const auto members = communicator.layout().members(group, communicator.rank());
    MPI_Comm_split(MPI_COMM_WORLD, members.front(), communicator.rank(), comm_.out());
  }
  void expect_same(const Buffer& mine) const {
    std::vector<std::byte> first = mine.bytes;
    MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_BYTE, 0, comm_.get());
    EXPECT_TRUE(first == mine.bytes) << "members of " << name_of(group_) << " disagree";
  }

 private:
  Group group_;
  MpiComm comm_;
};

constexpr DType kTypes[] = {DType::fp32, DType::bf16, DType::fp16, DType::int32};
constexpr Group kGroupsForAll[] = {Group::world, Group::tensor, Group::data,     Group::pipeline,
                                   Group::model, Group::mirror, Group::shared_kv};

/// Every combination of waiting and piece length goes through the same checks.
struct Mode {
  const char* name;
  MpiOptions options;
};
class Collectives : public ::testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, Collectives,
                         ::testing::Values(Mode{"spinning", {.crowded = false}},
                                           Mode{"sleeping", {.crowded = true}},
                                           Mode{"pieces", {.longest_call = 7, .crowded = false}},
                                           Mode{"sleeping_pieces", {.longest_call = 100, .crowded = true}}),
                         [](const auto& param) { return param.param.name; });

/// Reduces and compares with a serial reference.
void check_all_reduce(MpiCommunicator& communicator, Group group, const Peers& peers, DType type,
                      std::int64_t elements, ReduceOp op, unsigned seed) {
  const auto members = communicator.layout().members(group, communicator.rank());
  Buffer buffer = Buffer::random(type, elements, communicator.rank(), seed);
  if (seed % 2 == 0) {
    Ticket ticket = communicator.start_all_reduce(group, buffer.matrix(), op);
    communicator.progress();
    communicator.wait(ticket);
    EXPECT_FALSE(ticket);
  } else {
    communicator.all_reduce(group, buffer.matrix(), op);
  }
  std::vector<Buffer> inputs;
  inputs.reserve(members.size());
  for (int member : members) inputs.push_back(Buffer::random(type, elements, member, seed));
  int wrong = 0;
  for (std::int64_t i = 0; i < elements; ++i) {
    double expected = inputs.front().get(i);
    for (std::size_t m = 1; m < members.size(); ++m) {
      const double other = inputs[m].get(i);
      expected = op == ReduceOp::sum ? expected + other : std::max(expected, other);
    }
    const double allowed = op == ReduceOp::sum ? tolerance(type, members.size()) : 0;
    if (!(std::abs(buffer.get(i) - expected) <= allowed)) ++wrong;
  }
  EXPECT_EQ(wrong, 0) << name_of(type) << " over " << name_of(group) << ", " << elements << " elements, op "
                      << static_cast<int>(op);
  peers.expect_same(buffer);
}

TEST_P(Collectives, AllReduce) {
  unsigned seed = 0;
  for (const Layout& layout : layouts()) {
    MpiCommunicator communicator(layout, GetParam().options);
    for (Group group : kGroupsForAll) {
      const Peers peers(communicator, group);
      for (DType type : kTypes) {
        for (std::int64_t elements : {1, 7, 1000, 4097}) {
          check_all_reduce(communicator, group, peers, type, elements, ReduceOp::sum, ++seed);
          // An odd number of sums per maximum: either is started and done at once in turn.
          if (elements != 7)
            check_all_reduce(communicator, group, peers, type, elements, ReduceOp::max, ++seed);
        }
      }
    }
  }
}

TEST_P(Collectives, AllGatherAndReduceScatter) {
  for (const Layout& layout : layouts()) {
    MpiCommunicator communicator(layout, GetParam().options);
    for (Group group : kGroupsForAll) {
      const auto members = layout.members(group, communicator.rank());
      const auto size = static_cast<std::int64_t>(members.size());
      std::int64_t mine = 0;
      while (members[static_cast<std::size_t>(mine)] != communicator.rank()) ++mine;
      for (DType type : kTypes) {
        for (std::int64_t part : {1, 13, 1025}) {
          for (bool in_place : {false, true}) {
            Buffer gathered(type, part * size);
            Buffer own = Buffer::random(type, part, communicator.rank(), 1);
            Matrix input = own.matrix();
            if (in_place) {
              input = gathered.matrix().columns(mine * part, part);
              std::memcpy(input.data, own.bytes.data(), own.bytes.size());
            }
            const bool started = part == 13;
            if (started) {
              Ticket ticket = communicator.start_all_gather(group, input, gathered.matrix());
              communicator.progress();
              communicator.wait(ticket);
            } else {
              communicator.all_gather(group, input, gathered.matrix());
            }
            std::vector<std::byte> expected;
            for (int member : members) {
              const Buffer theirs = Buffer::random(type, part, member, 1);
              expected.insert(expected.end(), theirs.bytes.begin(), theirs.bytes.end());
            }
            EXPECT_TRUE(gathered.bytes == expected) << name_of(type) << " over " << name_of(group);
          }
          Buffer whole = Buffer::random(type, part * size, communicator.rank(), 2);
          Buffer piece(type, part);
          if (part == 1025) {
            Ticket ticket = communicator.start_reduce_scatter(group, whole.matrix(), piece.matrix());
            communicator.progress();
            communicator.wait(ticket);
          } else {
            communicator.reduce_scatter(group, whole.matrix(), piece.matrix());
          }
          EXPECT_TRUE(whole.bytes == Buffer::random(type, part * size, communicator.rank(), 2).bytes);
          std::vector<double> sums(static_cast<std::size_t>(part));
          for (int member : members) {
            Buffer theirs = Buffer::random(type, part * size, member, 2);
            for (std::int64_t i = 0; i < part; ++i)
              sums[static_cast<std::size_t>(i)] += theirs.get(mine * part + i);
          }
          for (std::int64_t i = 0; i < part; ++i) {
            ASSERT_NEAR(piece.get(i), sums[static_cast<std::size_t>(i)], tolerance(type, members.size()))
                << name_of(type) << " over " << name_of(group);
          }
        }
      }
    }
  }
}

TEST_P(Collectives, BroadcastReachesTheGroupOnly) {
  for (const Layout& layout : layouts()) {
    MpiCommunicator communicator(layout, GetParam().options);
    for (Group group : kGroupsForAll) {
      for (int root : layout.members(group, communicator.rank())) {
        Buffer buffer = Buffer::random(DType::bf16, 999, communicator.rank(), 3);
        communicator.broadcast(group, root, buffer.matrix());
        EXPECT_TRUE(buffer.bytes == Buffer::random(DType::bf16, 999, root, 3).bytes);
      }
      communicator.barrier(group);
    }
  }
}

TEST_P(Collectives, EmbeddingGroupIsFirstAndLastPipelineRank) {
  for (const Layout& layout : layouts()) {
    MpiCommunicator communicator(layout, GetParam().options);
    const int at = layout.coordinates(communicator.rank()).pipeline;
    Buffer one(DType::fp32, 1);
    one.set(0, 1);
    if (at != 0 && at != layout.pipeline - 1) {
      EXPECT_THROW(communicator.all_reduce(Group::embedding, one.matrix(), ReduceOp::sum), Error);
    } else {
      communicator.all_reduce(Group::embedding, one.matrix(), ReduceOp::sum);
      EXPECT_EQ(one.get(0), layout.pipeline > 1 ? 2 : 1);
    }
  }
}

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

/// The first rank's message leaves when its last reduction is done, so the others, who wait for it, must have
/// their part in the reductions started meanwhile.
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

/// A message that nobody has asked for yet must not keep progress() from driving a reduction.
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
      ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
    }
    std::remove(done.c_str());
    message = communicator.receive(early.matrix(), 1, 9);
  }
  communicator.wait(reduction);
  if (communicator.rank() == 1) std::ofstream(done).put('.');
  communicator.wait(message);
  EXPECT_EQ(large.get(299'999), world_size());
}

TEST(MpiCommunicator, RepeatedRunsGiveTheSameBits) {
  MpiCommunicator communicator({1, 1, world_size()});
  const Peers peers(communicator, Group::data);
  for (DType type : {DType::fp32, DType::bf16}) {
    std::vector<std::byte> first;
    for (int run = 0; run < 5; ++run) {
      Buffer buffer(type, 100'003);
      std::mt19937 generator(static_cast<unsigned>(communicator.rank()));
      for (std::int64_t i = 0; i < buffer.elements(); ++i)
        buffer.set(i, std::exp(static_cast<double>(generator() % 1000) / 100 - 5));
      communicator.all_reduce(Group::data, buffer.matrix(), ReduceOp::sum);
      peers.expect_same(buffer);
      if (run == 0) first = buffer.bytes;
      EXPECT_TRUE(buffer.bytes == first);
    }
  }
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

TEST(MpiCommunicator, RefusesWhatCannotBeRight) {
  EXPECT_THAT(([] {
                MpiCommunicator wrong({1, 1, world_size() + 1});
              }),
              ThrowsMessage<InputError>(HasSubstr("ranks were started")));
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
  // What would be measured across hosts agrees with the shared clock within the bound it claims.
  const ClockOffset measured = measure_clock_offset(MPI_COMM_WORLD);
  EXPECT_LE(std::abs(measured.offset.value), measured.error.value + 1e-9);
  EXPECT_EQ(measured.error.value > 0, world_size() > 1);
}

TEST(ReduceOps, RoundsBf16ToNearestEven) {
  struct Case {
    const char* name;
    std::uint16_t a, b, sum;
  };
  constexpr Case kCases[] = {
      {"exact", 0x3f80, 0x3f80, 0x4000},                   // 1 + 1 = 2
      {"half goes down to even", 0x4380, 0x3f80, 0x4380},  // 256 + 1 = 257, between 256 and 258
      {"half goes up to even", 0x4381, 0x3f80, 0x4382},    // 258 + 1 = 259, between 258 and 260
      {"more than half goes up", 0x4380, 0x3fc0, 0x4381},  // 256 + 1.5
      {"cancels", 0x42f7, 0xc2f7, 0x0000},                 //
      {"overflows to infinity", 0x7f7f, 0x7f7f, 0x7f80},   //
      {"infinity stays", 0x7f80, 0x3f80, 0x7f80},          //
      {"denormal kept", 0x0001, 0x0001, 0x0002},           //
  };
  for (const Case& c : kCases) {
    std::vector<std::uint16_t> in(100, c.a);  // long enough for the vector loop and its remainder
    std::vector<std::uint16_t> inout(100, c.b);
    add_bf16(in.data(), inout.data(), 99);
    EXPECT_EQ(inout.front(), c.sum) << c.name;
    EXPECT_EQ(inout[98], c.sum) << c.name;
    EXPECT_EQ(inout[99], c.b) << c.name;
  }
  std::uint16_t in = 0x7f80;  // infinity - infinity and a NaN whose mantissa would round into infinity
  std::uint16_t inout = 0xff80;
  add_bf16(&in, &inout, 1);
  EXPECT_TRUE(std::isnan(value_of(inout)));
  in = 0x7fff;
  inout = 0;
  add_bf16(&in, &inout, 1);
  EXPECT_TRUE(std::isnan(value_of(inout)));
}

TEST(ReduceOps, AddsFp16AsDefined) {
  // Every half alone, and every half with numbers near its end of the range, against the nearest half by
  // search.
  for (const std::uint16_t other : {0x0000, 0x0001, 0x8001, 0x3c00, 0x4001, 0xbc01, 0x7bff, 0x0400, 0x83ff}) {
    std::vector<std::uint16_t> sums(65536, other);
    std::vector<std::uint16_t> all(65536);
    for (int i = 0; i < 65536; ++i) all[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(i);
    add_fp16(all.data(), sums.data(), 65536);
    int wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double exact = half_value(all[i]) + half_value(other);
      const double found = half_value(sums[i]);
      if (std::isnan(exact)) {
        wrong += std::isnan(found) ? 0 : 1;
      } else if (std::abs(exact) >= 65520) {  // half way between the largest half and 2^16
        wrong += std::isinf(found) && std::signbit(found) == std::signbit(exact) ? 0 : 1;
      } else {
        // No neighbour is nearer, and of two as near the even one is taken.
        const double error = std::abs(found - exact);
        const auto magnitude = static_cast<std::uint16_t>(sums[i] & 0x7fff);
        const double up = std::abs(half_value(magnitude + 1) - std::abs(exact));
        const double down = magnitude == 0 ? INFINITY : std::abs(half_value(magnitude - 1) - std::abs(exact));
        if (error > up || error > down || ((error == up || error == down) && (sums[i] & 1) != 0)) ++wrong;
      }
    }
    EXPECT_EQ(wrong, 0) << "with " << other;
  }
}

}  // namespace
}  // namespace plumbline
