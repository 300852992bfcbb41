// The collectives of the MPI communicator against serial references, over every layout of the ranks it was
// started with.
#include <algorithm>

#include "core/base/error.hpp"
#include "tests/core/backends/mpi_test.hpp"

namespace plumbline::mpi_test::mpi_collectives_test {
namespace {

constexpr DType kTypes[] = {DType::fp32, DType::bf16, DType::fp16, DType::int32};
constexpr Group kGroupsForAll[] = {Group::world, Group::tensor, Group::data,     Group::pipeline,
                                   Group::model, Group::mirror, Group::shared_kv};

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
  const Buffer before = Buffer::random(type, elements, communicator.rank(), seed);
  Buffer input = before;
  Buffer apart(type, elements);
  if (seed % 2 == 0) {
    Ticket ticket =
        communicator.start({CollectiveKind::all_reduce, group, input.matrix(), apart.matrix(), op});
    communicator.wait(ticket);
  } else {
    communicator.all_reduce(group, input.matrix(), apart.matrix(), op);
  }
  EXPECT_TRUE(apart.bytes == buffer.bytes) << "out of place, over " << name_of(group);
  EXPECT_TRUE(input.bytes == before.bytes) << "the input has changed";
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

TEST_P(Collectives, AllToAll) {
  for (const Layout& layout : layouts()) {
    MpiCommunicator communicator(layout, GetParam().options);
    for (Group group : kGroupsForAll) {
      const auto members = layout.members(group, communicator.rank());
      const auto size = static_cast<std::int64_t>(members.size());
      const auto mine = std::find(members.begin(), members.end(), communicator.rank()) - members.begin();
      for (std::int64_t part : {1, 130}) {
        Buffer sent = Buffer::random(DType::bf16, part * size, communicator.rank(), 4);
        Buffer received(DType::bf16, part * size);
        communicator.all_to_all(group, sent.matrix(), received.matrix());
        std::vector<std::byte> expected;
        for (int member : members) {
          const Buffer theirs = Buffer::random(DType::bf16, part * size, member, 4);
          const auto first = theirs.bytes.begin() + mine * part * 2;
          expected.insert(expected.end(), first, first + part * 2);
        }
        EXPECT_TRUE(received.bytes == expected) << name_of(group) << " " << part;
        EXPECT_TRUE(sent.bytes == Buffer::random(DType::bf16, part * size, communicator.rank(), 4).bytes);
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

TEST_P(Collectives, ReduceGivesTheSumToTheRootOnly) {
  constexpr std::int64_t kElements = 2049;  // more than one call of MPI where those are short
  for (const Layout& layout : layouts()) {
    MpiCommunicator communicator(layout, GetParam().options);
    for (const Group group : kGroupsForAll) {
      const std::vector<int> members = layout.members(group, communicator.rank());
      for (const DType type : {DType::fp32, DType::bf16}) {
        for (const int root : members) {
          Buffer input = Buffer::random(type, kElements, communicator.rank(), 4);
          Buffer output = Buffer::random(type, kElements, communicator.rank(), 5);
          Ticket ticket = communicator.start_reduce(group, root, input.matrix(), output.matrix());
          communicator.progress();
          communicator.wait(ticket);
          EXPECT_TRUE(input.bytes == Buffer::random(type, kElements, communicator.rank(), 4).bytes);
          if (root != communicator.rank()) {
            EXPECT_TRUE(output.bytes == Buffer::random(type, kElements, communicator.rank(), 5).bytes);
            continue;
          }
          for (std::int64_t i = 0; i < kElements; i += 97) {
            double sum = 0;
            for (const int member : members) sum += Buffer::random(type, kElements, member, 4).get(i);
            ASSERT_NEAR(output.get(i), sum, tolerance(type, members.size()))
                << name_of(type) << name_of(group);
          }
        }
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

}  // namespace
}  // namespace plumbline::mpi_test::mpi_collectives_test
