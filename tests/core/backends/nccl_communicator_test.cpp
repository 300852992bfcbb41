// The NCCL communicator over a fake NCCL and CUDA runtime: order, matching and traffic.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <numeric>

#include "core/base/error.hpp"
#include "tests/core/backends/fake_gpu/nccl_rank.hpp"

namespace plumbline::nccl_communicator_test {
namespace {

using namespace fake;

TEST(NcclCommunicator, CollectivesOfEveryGroup) {
  const Layout layout = two_by(world() >= 2 ? 2 : 1, 1);
  Rank rank(layout);
  const int me = rank.nccl.rank();
  for (const Group group : {Group::world, Group::tensor, Group::data, Group::model, Group::pipeline}) {
    SCOPED_TRACE(name_of(group));
    const std::vector<int> members = layout.members(group, me);
    const auto count = static_cast<std::int64_t>(members.size());
    const Traffic before = rank.nccl.traffic();

    OnDevice<float> sum(kMany, static_cast<float>(me + 1));
    rank.nccl.all_reduce(group, sum.matrix(), ReduceOp::sum);
    EXPECT_EQ(sum[kMany - 1], static_cast<float>(std::accumulate(members.begin(), members.end(), 0) + count));

    float norm = static_cast<float>(me + 1);  // of the host: not a kernel's to read
    rank.nccl.all_reduce(group, Matrix(&norm, 1, 1, DType::fp32), ReduceOp::sum);
    EXPECT_EQ(norm, sum[0]);

    OnDevice<int> most(3, me);
    rank.finish(rank.nccl.start_all_reduce(group, most.matrix(), ReduceOp::max));
    EXPECT_EQ(most[2], members.back());

    OnDevice<float> piece(kMany, static_cast<float>(me));
    OnDevice<float> all(kMany * members.size());
    rank.nccl.all_gather(group, piece.matrix(), all.matrix());
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(all[i * kMany + kMany / 2], static_cast<float>(members[i]));
    }

    OnDevice<float> scattered(kMany);
    rank.finish(rank.nccl.start_reduce_scatter(group, all.matrix(), scattered.matrix()));
    EXPECT_EQ(scattered[0], static_cast<float>(me) * static_cast<float>(count));

    OnDevice<float> root_only(kMany, -1);
    rank.finish(rank.nccl.start_reduce(group, members.back(), piece.matrix(), root_only.matrix()));
    const float total = static_cast<float>(std::accumulate(members.begin(), members.end(), 0));
    EXPECT_EQ(root_only[kMany - 1], me == members.back() ? total : -1.0F);

    OnDevice<int> told(5, me);
    rank.nccl.broadcast(group, members.back(), told.matrix());
    EXPECT_EQ(told[4], members.back());

    const GroupTraffic& now = rank.nccl.traffic().of(group);
    const std::int64_t moves = count > 1 ? 1 : 0;
    EXPECT_EQ(now.calls - before.of(group).calls, 7 * moves);
    EXPECT_EQ(now.all_reduced.value, moves * static_cast<std::int64_t>(kMany * 4 + 4 + 12));
    EXPECT_EQ(now.all_gathered.value, moves * count * static_cast<std::int64_t>(kMany) * 4);
    EXPECT_EQ(now.reduce_scattered.value, moves * (count + 1) * static_cast<std::int64_t>(kMany) * 4);
    EXPECT_EQ(now.broadcast.value, moves * 20);
  }
  rank.nccl.barrier(Group::world);
  EXPECT_GE(rank.nccl.take_tensor_time().value, 0);
  EXPECT_EQ(rank.nccl.take_tensor_time().value, 0);

  OnDevice<float> numbers(kMany, 1);
  for (const bool counted : {false, true}) {
    rank.nccl.count_tensor_time(counted);
    rank.nccl.all_reduce(Group::tensor, numbers.matrix(), ReduceOp::sum);
    rank.nccl.barrier(Group::world);
    EXPECT_EQ(rank.nccl.take_tensor_time().value > 0, counted && layout.tensor > 1);
  }
}

TEST(NcclCommunicator, AReductionFollowsAGatherByItself) {
  Layout layout = two_by(1, world());
  layout.vocab_parallel = true;
  Rank rank(layout);
  const auto calls = fake::calls_made();
  const int n = world();
  const int me = rank.nccl.rank();
  OnDevice<float> gathered(static_cast<std::size_t>(n), static_cast<float>(me));
  OnDevice<float> reduced(kMany);
  const Matrix mine(gathered.matrix().at(0, me), 1, 1, DType::fp32);
  const Ticket gather = rank.nccl.start_all_gather(Group::vocab_statistics, mine, gathered.matrix());
  bool prepared = false;
  Ticket reduction = rank.nccl.start_all_reduce_after(
      gather,
      [&] {
        prepared = true;
        float sum = 0;
        for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) sum += gathered[i];
        for (std::size_t i = 0; i < kMany; ++i) reduced[i] = sum;
      },
      Group::vocab_gradient, reduced.matrix(), ReduceOp::sum);
  OnDevice<int> told(5, me);
  if (me == 0) {
    // Its messages leave when the reduction is done: the waiting ranks start their part meanwhile.
    rank.nccl.wait(reduction);
    EXPECT_TRUE(prepared);
    for (int to = 1; to < n; ++to) {
      rank.send(told.matrix(), to, 0);
    }
  } else {
    rank.receive(told.matrix(), 0, 0);
    rank.nccl.wait(reduction);
    EXPECT_EQ(told[4], 0);
  }
  EXPECT_EQ(reduced[kMany - 1], static_cast<float>(n * n * (n - 1) / 2));
  rank.finish(rank.nccl.start_broadcast(Group::vocab_hidden, n - 1, told.matrix()));
  rank.nccl.barrier(Group::world);
  EXPECT_EQ(rank.nccl.traffic().of(Group::vocab_gradient).calls, n > 1 ? 1 : 0);
  if (n == 1) return;
  EXPECT_NE(fake::calls_made(), calls);
  // They wait on the device during the computation.
  const auto& most = fake::most_blocks();
  EXPECT_EQ(most.at("the vocab_hidden group"), NcclBlocks().per_vocabulary);
  const std::string next = std::to_string((me + 1) % n);
  EXPECT_EQ(most.at("messages from rank " + std::to_string(me) + " to rank " + next),
            NcclBlocks().per_message);
  EXPECT_EQ(most.at("the world group"), NCCL_CONFIG_UNDEF_INT);
}

TEST(NcclCommunicator, MessagesCrossAndKeepTheirOrder) {
  const Layout layout = two_by(1, world());
  Rank rank(layout);
  const auto calls = fake::calls_made();
  if (world() > 1) {
    const int me = rank.nccl.rank();
    const int next = rank.neighbour();
    const int previous = rank.neighbour(-1);
    constexpr int kMessages = 5;
    // Everybody sends everything first: no rank has reached its receive yet.
    std::vector<std::unique_ptr<OnDevice<int>>> sent;
    std::vector<Ticket> sends;
    for (int i = 0; i < kMessages; ++i) {
      sent.push_back(std::make_unique<OnDevice<int>>(kMany, me * 100 + i));
      sends.push_back(rank.nccl.send(sent.back()->matrix(), next, i));
    }
    for (int i = 0; i < kMessages; ++i) {
      OnDevice<int> got(kMany);
      rank.receive(got.matrix(), previous, i);
      EXPECT_EQ(got[kMany - 1], previous * 100 + i);
    }
    for (Ticket& ticket : sends) rank.nccl.wait(ticket);
    EXPECT_EQ(rank.nccl.traffic().messages_sent, kMessages);
    EXPECT_EQ(rank.nccl.traffic().point_to_point_sent.value,
              kMessages * static_cast<std::int64_t>(kMany) * 4);
    // Host memory goes over MPI, where tags count.
    int word = me;
    int heard = -1;
    Ticket out = rank.nccl.send(Matrix(&word, 1, 1, DType::int32), next, 77);
    rank.receive(Matrix(&heard, 1, 1, DType::int32), previous, 77);
    rank.nccl.wait(out);
    EXPECT_EQ(heard, previous);
    EXPECT_NE(fake::calls_made(), calls);
  }
  rank.nccl.barrier(Group::world);
}

TEST(NcclCommunicator, MessagesHaveStreamsOfHighPriorityAndABudgetOfMultiprocessors) {
  const Layout layout = two_by(1, world());
  fake::stream_priorities().clear();
  {
    Rank rank(layout, Seconds{300}, nullptr, 132);
    // With every rank, both ways; awaited calls need none of their own.
    EXPECT_EQ(rank.nccl.multiprocessors_for_computation(),
              132 - 2 * (world() - 1) * NcclBlocks().per_message);
    rank.nccl.barrier(Group::world);
  }
  EXPECT_EQ(fake::stream_priorities().size(), world() > 1 ? 1U : 0U);
  if (world() < 2) return;
  EXPECT_GT(fake::stream_priorities()[-5], 0);
  EXPECT_THROW(Rank(layout, Seconds{300}, nullptr, 20), InputError);
  MPI_Barrier(MPI_COMM_WORLD);
}

/// No receive would start before the second send, because all streams share a queue or the environment asks
/// for launches in the order of the calls.
class OrderOfCalls : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(OneQueue, OrderOfCalls, testing::Bool());

TEST_P(OrderOfCalls, ASendBehindAnotherHoldsUpNothingElse) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  ASSERT_EQ(::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1), 0);
  const OneQueue queue(GetParam());
  Rank rank(two_by(1, world()), Seconds{20});
  const int me = rank.nccl.rank();
  const int next = rank.neighbour();
  const int before = rank.neighbour(-1);
  OnDevice<int> sent[] = {OnDevice<int>(kMany, me), OnDevice<int>(kMany, me + 100)};
  OnDevice<int> received[] = {OnDevice<int>(kMany), OnDevice<int>(kMany)};
  std::vector<Ticket> tickets;
  for (int i = 0; i < 2; ++i) tickets.push_back(rank.nccl.send(sent[i].matrix(), next, i));
  for (int i = 0; i < 2; ++i) tickets.push_back(rank.nccl.receive(received[i].matrix(), before, i));
  for (int i : {2, 3, 0, 1}) rank.nccl.wait(tickets[static_cast<std::size_t>(i)]);
  EXPECT_EQ(received[0][kMany - 1], before);
  EXPECT_EQ(received[1][kMany - 1], before + 100);
  rank.nccl.barrier(Group::world);
}

}  // namespace
}  // namespace plumbline::nccl_communicator_test
