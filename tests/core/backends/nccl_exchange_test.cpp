// The NCCL communicator exchanges heads of a sequence and rows of experts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/core/backends/fake_gpu/nccl_rank.hpp"

namespace plumbline::nccl_exchange_test {
namespace {

using namespace fake;

TEST(NcclExchange, RanksOfASequenceExchangeHeadsAndSendRoundARing) {
  // All ranks share a sequence: heads between `heads` neighbours, the rest a ring.
  for (int heads = 1; heads <= world(); heads *= 2) {
    SCOPED_TRACE(heads);
    Layout layout = two_by(1, 1);
    layout.context = world();
    layout.context_heads = heads == world() ? 1 : heads;
    Rank rank(layout, Seconds{300}, nullptr, 0, world() / heads);
    const int me = rank.nccl.rank();
    for (const Group group : {Group::context, Group::context_heads}) {
      const std::vector<int> members = layout.members(group, me);
      if (members.empty()) continue;
      const std::size_t n = members.size();
      OnDevice<int> sent(n * kMany);
      OnDevice<int> received(n * kMany, -1);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < kMany; ++j) sent[i * kMany + j] = 100 * me + members[i];
      }
      rank.nccl.all_to_all(group, sent.matrix(), received.matrix());
      rank.nccl.barrier(Group::world);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(received[i * kMany], 100 * members[i] + me);
        EXPECT_EQ(received[i * kMany + kMany - 1], 100 * members[i] + me);
      }
    }
    if (heads < world()) {
      const auto calls = fake::calls_made();
      const int next = (me + heads) % world();
      const int previous = (me + world() - heads) % world();
      // Keys go on while the next ones come, and gradients after them, as attention round a ring has it.
      for (int step = 0; step < 3; ++step) {
        OnDevice<int> keys(kMany, 10 * me + step);
        OnDevice<int> others(kMany, -1);
        OnDevice<int> gradients(7, 10 * me + step + 5);
        OnDevice<int> arriving(7, -1);
        Ticket in = rank.nccl.receive(others.matrix(), previous, 1);
        Ticket out = rank.nccl.send(keys.matrix(), next, 1);
        rank.nccl.wait(in);
        rank.nccl.wait(out);
        in = rank.nccl.receive(arriving.matrix(), previous, 2);
        out = rank.nccl.send(gradients.matrix(), next, 2);
        rank.nccl.wait(in);
        rank.nccl.wait(out);
        EXPECT_EQ(others[kMany - 1], 10 * previous + step);
        EXPECT_EQ(arriving[6], 10 * previous + step + 5);
      }
      EXPECT_NE(fake::calls_made(), calls);
      EXPECT_EQ(fake::most_blocks().at(fmt::format("messages from rank {} to rank {}", me, next)),
                NcclBlocks().per_message);
    }
    rank.nccl.barrier(Group::world);
    EXPECT_GE(rank.nccl.take_tensor_time().value, 0);
  }
}

/// Every rank tells the others how many rows they get, in host memory, and sends them.
TEST(NcclExperts, RowsOfExpertsAreCountedOnTheHostAndSentInPiecesOfTheirOwn) {
  Layout layout = two_by(1, 1);
  layout.expert = world();
  Rank rank(layout);
  const int me = rank.nccl.rank();
  const auto n = static_cast<std::size_t>(world());
  // Some none, and one in several chunks.
  const auto count = [&](int from, std::size_t to) {
    return static_cast<int>(to) == from ? 1 : (from + 2 * static_cast<int>(to)) % 3 * 40'000;
  };
  std::vector<std::int32_t> sent(n), received(n), all(n * n);
  for (std::size_t to = 0; to < n; ++to) sent[to] = count(me, to);
  const auto on_host = [](std::vector<std::int32_t>& x) {
    return Matrix(x.data(), 1, std::ssize(x), DType::int32);
  };
  if (n > 1) {
    const auto calls = fake::calls_made();
    rank.nccl.all_to_all(Group::expert, on_host(sent), on_host(received));
    rank.nccl.all_gather(Group::expert, on_host(sent), on_host(all));
    EXPECT_EQ(fake::calls_made(), calls);
    for (std::size_t from = 0; from < n; ++from) {
      EXPECT_EQ(received[from], count(static_cast<int>(from), static_cast<std::size_t>(me)));
      for (std::size_t to = 0; to < n; ++to) EXPECT_EQ(all[from * n + to], count(static_cast<int>(from), to));
    }
    const std::vector<std::int64_t> out(sent.begin(), sent.end());
    const std::vector<std::int64_t> in(received.begin(), received.end());
    OnDevice<float> rows(static_cast<std::size_t>(std::accumulate(out.begin(), out.end(), std::int64_t{0})));
    OnDevice<float> came(static_cast<std::size_t>(std::accumulate(in.begin(), in.end(), std::int64_t{0})),
                         -1);
    std::size_t at = 0;
    for (std::size_t to = 0; to < n; ++to) {
      for (std::int64_t i = 0; i < out[to]; ++i)
        rows[at++] = static_cast<float>(100 * me + static_cast<int>(to));
    }
    rank.nccl.all_to_all(Group::expert, rows.matrix(), out, came.matrix(), in);
    rank.nccl.barrier(Group::world);
    at = 0;
    for (std::size_t from = 0; from < n; ++from) {
      if (in[from] == 0) continue;
      EXPECT_EQ(came[at], static_cast<float>(100 * static_cast<int>(from) + me));
      at += static_cast<std::size_t>(in[from]);
      EXPECT_EQ(came[at - 1], static_cast<float>(100 * static_cast<int>(from) + me));
    }
    EXPECT_EQ(rank.nccl.traffic().of(Group::expert).calls, 3);
  }
  rank.nccl.barrier(Group::world);
}

/// Work given to the compute stream meanwhile runs; the group's next awaited collective comes after the
/// exchange.
TEST(NcclExchange, RowsOfExpertsTravelAlongsideWhatIsComputed) {
  Layout layout = two_by(1, 1);
  layout.expert = world();
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  Rank rank(layout);
  const int me = rank.nccl.rank();
  const auto n = static_cast<std::size_t>(world());
  // Rank i receives i + 1 pieces from every rank.
  std::vector<std::int64_t> out(n), in(n, (me + 1) * std::int64_t{kMany});
  for (std::size_t to = 0; to < n; ++to) out[to] = static_cast<std::int64_t>((to + 1) * kMany);
  OnDevice<float> rows(kMany * n * (n + 1) / 2, static_cast<float>(me));
  OnDevice<float> came(kMany * n * static_cast<std::size_t>(me + 1), -1);
  OnDevice<float> sum(3, 1);
  (void)rank.nccl.take_tensor_time();
  Ticket ticket = rank.nccl.start_all_to_all(Group::expert, rows.matrix(), out, came.matrix(), in);
  std::fill(out.begin(), out.end(), 0);  // read already
  rank.nccl.all_reduce(Group::expert, sum.matrix(), ReduceOp::sum);
  rank.nccl.wait(ticket);
  EXPECT_FALSE(ticket);
  rank.nccl.barrier(Group::world);
  for (std::size_t from = 0; from < n; ++from) {
    const std::size_t first = from * static_cast<std::size_t>(in[0]);
    EXPECT_EQ(came[first], static_cast<float>(from));
    EXPECT_EQ(came[first + static_cast<std::size_t>(in[0]) - 1], static_cast<float>(from));
  }
  EXPECT_EQ(sum[2], static_cast<float>(world()));
  EXPECT_GE(rank.nccl.take_tensor_time().value, 0);
  EXPECT_EQ(rank.nccl.traffic().of(Group::expert).exchanged, rows.matrix().bytes());
  rank.nccl.barrier(Group::world);
}

}  // namespace
}  // namespace plumbline::nccl_exchange_test
