// The NCCL communicator over a fake NCCL and CUDA runtime, for machines without a GPU: order, matching,
// traffic and a rank that stops. Its streams are threads, and its messages wait for their receivers.
#include "core/backends/nccl/nccl_communicator.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "core/base/error.hpp"
#include "tests/core/backends/fake_gpu/shared_comm.hpp"
#include "tests/core/backends/fake_gpu/streams.hpp"

namespace plumbline {
namespace {

using testing::HasSubstr;

/// Device memory of `count` floats or ints.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count, T value = T{}) : count_(count) {
    check_cuda(cudaMalloc(&data_, count * sizeof(T)), "cudaMalloc");
    std::fill_n(static_cast<T*>(data_), count, value);
  }
  ~OnDevice() { (void)cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  Matrix matrix() const {
    constexpr DType type = std::is_same_v<T, float> ? DType::fp32 : DType::int32;
    return {data_, 1, static_cast<std::int64_t>(count_), type};
  }
  T& operator[](std::size_t i) { return static_cast<T*>(data_)[i]; }

 private:
  std::size_t count_;
  void* data_ = nullptr;
};

int world() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

Layout two_by(int tensor, int pipeline) {
  Layout layout;
  layout.tensor = tensor;
  layout.pipeline = pipeline;
  layout.data = world() / (tensor * pipeline);
  return layout;
}

std::vector<Channel> ring(int ranks) {
  std::vector<Channel> channels;
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from != to) channels.push_back({from, to});
    }
  }
  return channels;
}

constexpr int kDevice = 1;  // not the one that threads begin with

/// A communicator whose compute stream is the host: every request is done at once.
struct Rank {
  explicit Rank(const Layout& layout, Seconds timeout = Seconds{300}, cudaStream_t compute = nullptr,
                int multiprocessors = 0, int context_ring = 1)
      : control(layout),
        nccl(layout, control, options(layout, timeout, compute, multiprocessors, context_ring)) {}
  static NcclOptions options(const Layout& layout, Seconds timeout, cudaStream_t compute, int multiprocessors,
                             int context_ring) {
    check_cuda(cudaSetDevice(kDevice), "cudaSetDevice");
    NcclOptions options;
    options.multiprocessors = multiprocessors;
    options.context_ring = context_ring;
    options.compute = compute;
    options.channels = ring(layout.pipeline);
    options.watchdog = {timeout, Seconds{0.01}};
    return options;
  }
  MpiCommunicator control;
  NcclCommunicator nccl;
};

constexpr std::size_t kMany = 100'000;  // several chunks, the last one short

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
    Ticket ticket = rank.nccl.start_all_reduce(group, most.matrix(), ReduceOp::max);
    rank.nccl.wait(ticket);
    EXPECT_EQ(most[2], members.back());

    OnDevice<float> piece(kMany, static_cast<float>(me));
    OnDevice<float> all(kMany * members.size());
    rank.nccl.all_gather(group, piece.matrix(), all.matrix());
    for (std::size_t i = 0; i < members.size(); ++i) {
      EXPECT_EQ(all[i * kMany + kMany / 2], static_cast<float>(members[i]));
    }

    OnDevice<float> scattered(kMany);
    Ticket scatter = rank.nccl.start_reduce_scatter(group, all.matrix(), scattered.matrix());
    rank.nccl.wait(scatter);
    EXPECT_EQ(scattered[0], static_cast<float>(me) * static_cast<float>(count));

    OnDevice<float> root_only(kMany, -1);
    Ticket reduction = rank.nccl.start_reduce(group, members.back(), piece.matrix(), root_only.matrix());
    rank.nccl.wait(reduction);
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

/// False, and true in a rehearsal.
class NcclCommunicatorBothWays : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Rehearsal, NcclCommunicatorBothWays, testing::Bool());

TEST_P(NcclCommunicatorBothWays, AReductionFollowsAGatherByItself) {
  Layout layout = two_by(1, world());
  layout.vocab_parallel = true;
  Rank rank(layout);
  rank.nccl.rehearse(GetParam());
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
      Ticket send = rank.nccl.send(told.matrix(), to, 0);
      rank.nccl.wait(send);
    }
  } else {
    Ticket receive = rank.nccl.receive(told.matrix(), 0, 0);
    rank.nccl.wait(receive);
    rank.nccl.wait(reduction);
    EXPECT_EQ(told[4], 0);
  }
  EXPECT_EQ(reduced[kMany - 1], static_cast<float>(n * n * (n - 1) / 2));
  Ticket broadcast = rank.nccl.start_broadcast(Group::vocab_hidden, n - 1, told.matrix());
  rank.nccl.wait(broadcast);
  rank.nccl.barrier(Group::world);
  EXPECT_EQ(rank.nccl.traffic().of(Group::vocab_gradient).calls, n > 1 ? 1 : 0);
  if (n == 1) return;
  EXPECT_EQ(fake::calls_made() == calls, GetParam());  // nothing that waits for others
  // They wait on the device during the computation.
  const auto& most = fake::most_blocks();
  EXPECT_EQ(most.at("the vocab_hidden group"), NcclBlocks().per_message);
  const std::string next = std::to_string((me + 1) % n);
  EXPECT_EQ(most.at("messages from rank " + std::to_string(me) + " to rank " + next),
            NcclBlocks().per_message);
  EXPECT_EQ(most.at("the world group"), NCCL_CONFIG_UNDEF_INT);
}

TEST_P(NcclCommunicatorBothWays, MessagesCrossAndKeepTheirOrder) {
  const Layout layout = two_by(1, world());
  Rank rank(layout);
  rank.nccl.rehearse(GetParam());
  const auto calls = fake::calls_made();
  if (world() > 1) {
    const int me = rank.nccl.rank();
    const int next = (me + 1) % world();
    const int previous = (me + world() - 1) % world();
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
      Ticket ticket = rank.nccl.receive(got.matrix(), previous, i);
      rank.nccl.wait(ticket);
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
    Ticket in = rank.nccl.receive(Matrix(&heard, 1, 1, DType::int32), previous, 77);
    rank.nccl.wait(in);
    rank.nccl.wait(out);
    EXPECT_EQ(heard, previous);
    EXPECT_EQ(fake::calls_made() == calls, GetParam());
  }
  rank.nccl.barrier(Group::world);
}

TEST_P(NcclCommunicatorBothWays, RanksOfASequenceExchangeHeadsAndSendRoundARing) {
  // All ranks share a sequence: heads between `heads` neighbours, the rest a ring.
  for (int heads = 1; heads <= world(); heads *= 2) {
    SCOPED_TRACE(heads);
    Layout layout = two_by(1, 1);
    layout.context = world();
    layout.context_heads = heads == world() ? 1 : heads;
    Rank rank(layout, Seconds{300}, nullptr, 0, world() / heads);
    rank.nccl.rehearse(GetParam());
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
      EXPECT_EQ(fake::calls_made() == calls, GetParam());
      EXPECT_EQ(fake::most_blocks().at(fmt::format("messages from rank {} to rank {}", me, next)),
                NcclBlocks().per_message);
    }
    rank.nccl.barrier(Group::world);
    EXPECT_GE(rank.nccl.take_tensor_time().value, 0);
  }
}

/// Every rank tells the others how many rows they get, in host memory, and sends them.
TEST(NcclCommunicator, RowsOfExpertsAreCountedOnTheHostAndSentInPiecesOfTheirOwn) {
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
TEST_P(NcclCommunicatorBothWays, RowsOfExpertsTravelAlongsideWhatIsComputed) {
  Layout layout = two_by(1, 1);
  layout.expert = world();
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  Rank rank(layout);
  rank.nccl.rehearse(GetParam());
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

TEST(NcclCommunicator, GradientsAreReducedOverMpiInARehearsalAndSumsThatAreAwaitedAreNot) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  Rank rank(two_by(1, 1));
  rank.nccl.rehearse(true);
  const auto calls = fake::calls_made();
  OnDevice<float> gradients(kMany * static_cast<std::size_t>(world()), 2.0F);
  OnDevice<float> piece(kMany);
  Ticket scatter = rank.nccl.start_reduce_scatter(Group::data, gradients.matrix(), piece.matrix());
  Ticket sum = rank.nccl.start_all_reduce(Group::data, gradients.matrix(), ReduceOp::sum);
  rank.nccl.progress();
  rank.nccl.wait(scatter);
  rank.nccl.wait(sum);
  EXPECT_EQ(piece[kMany - 1], 2.0F * static_cast<float>(world()));
  EXPECT_EQ(gradients[0], 2.0F * static_cast<float>(world()));
  OnDevice<float> own(kMany, 1.0F);
  OnDevice<float> total(kMany, -1.0F);
  Ticket reduce = rank.nccl.start_reduce(Group::data, 1, own.matrix(), total.matrix());
  rank.nccl.wait(reduce);
  EXPECT_EQ(total[kMany - 1], rank.nccl.rank() == 1 ? static_cast<float>(world()) : -1.0F);
  EXPECT_EQ(fake::calls_made(), calls);
  rank.nccl.all_reduce(Group::world, piece.matrix(), ReduceOp::max);
  EXPECT_NE(fake::calls_made(), calls);
  EXPECT_EQ(fake::most_blocks().at("the world group"), NcclBlocks().per_started);  // the data group, too
  rank.nccl.barrier(Group::world);
}

TEST(NcclCommunicator, SecondaryShardsAreGatheredAmongNeighboursOnALaneOfTheirOwn) {
  if (world() < 4) GTEST_SKIP() << "needs four ranks";
  Layout layout = two_by(1, 1);
  layout.zero_param = 2;
  Rank rank(layout);
  const int me = rank.nccl.rank();
  OnDevice<float> own(kMany, static_cast<float>(me));
  OnDevice<float> unit(2 * kMany, -1.0F);
  OnDevice<float> gradients(kMany, 1.0F);
  Ticket sum = rank.nccl.start_all_reduce(Group::data, gradients.matrix(), ReduceOp::sum);
  Ticket gather = rank.nccl.start_all_gather(Group::zero_param, own.matrix(), unit.matrix());
  rank.nccl.wait(gather);
  rank.nccl.wait(sum);
  EXPECT_EQ(unit[0], static_cast<float>(me / 2 * 2));
  EXPECT_EQ(unit[2 * kMany - 1], static_cast<float>(me / 2 * 2 + 1));
  EXPECT_EQ(gradients[0], static_cast<float>(world()));
  EXPECT_EQ(fake::most_blocks().at("the zero_param group"), NcclBlocks().per_started);
  rank.nccl.barrier(Group::world);
}

TEST_P(NcclCommunicatorBothWays, WhatFollowsWithoutTheHostIsPutInOrderByTheDevice) {
  if (world() < 4) GTEST_SKIP() << "needs four ranks";
  Layout layout = two_by(1, 1);
  layout.optimizer_instance = 2;
  Rank rank(layout);
  rank.nccl.rehearse(GetParam());
  const int me = rank.nccl.rank();
  for (int round = 0; round < 3; ++round) {
    OnDevice<float> unit(2 * kMany, static_cast<float>(1 + me + round));
    OnDevice<float> piece(kMany, -1.0F);
    const Ticket scatter =
        rank.nccl.start_reduce_scatter(Group::optimizer_instance, unit.matrix(), piece.matrix());
    Ticket sum = rank.nccl.start_all_reduce_after(scatter, {}, Group::between_instances, piece.matrix(),
                                                  ReduceOp::sum);
    rank.nccl.wait(sum);
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    EXPECT_EQ(piece[0], static_cast<float>(10 + 4 * round));
    EXPECT_EQ(piece[kMany - 1], static_cast<float>(10 + 4 * round));
  }
  EXPECT_EQ(fake::most_blocks().at("the between_instances group"), NcclBlocks().per_started);
  rank.nccl.barrier(Group::world);
}

// Computation of 100 ms hides an all-reduce; a rank that comes 60 ms late makes the others wait.
TEST(NcclCommunicator, NotesWhenCollectivesRanOnTheDeviceAndHowLongItWaited) {
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
  EXPECT_THROW(Rank(layout, Seconds{300}, nullptr, 40), InputError);
  MPI_Barrier(MPI_COMM_WORLD);
}

/// NCCL would start no receive before the second send, because the environment asks for launches in the order
/// of the calls.
TEST(NcclCommunicator, ASendBehindAnotherHoldsUpNothingElse) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  ASSERT_EQ(::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1), 0);
  Rank rank(two_by(1, world()), Seconds{20});
  const int me = rank.nccl.rank();
  const int next = (me + 1) % world();
  const int before = (me + world() - 1) % world();
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

TEST(NcclCommunicator, AMessageThatTheScheduleDoesNotHaveIsRefused) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  const Layout layout = two_by(2, 1);
  Rank rank(layout);
  OnDevice<int> word(1);
  try {
    rank.nccl.send(word.matrix(), (rank.nccl.rank() + 1) % world(), 0);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the schedule has no messages from rank"));
  }
  rank.nccl.barrier(Group::world);
}

TEST(NcclCommunicator, ARankThatStopsIsNamed) {
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

TEST(NcclCommunicator, ARankThatIsLateAtABarrierIsNamed) {
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
TEST(NcclCommunicator, AMessageThatNeverComesHoldsNothingBackForEver) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  const Layout layout = two_by(1, world());
  const DeviceStream compute;
  Rank rank(layout, Seconds{2}, compute.get());
  rank.nccl.barrier(Group::world);
  if (rank.nccl.rank() != 1) {
    OnDevice<int> word(1);
    OnDevice<float> norm(1, 1.0F);
    Ticket message = rank.nccl.receive(word.matrix(), 1, 0);
    rank.nccl.wait(message);
    Ticket sum = rank.nccl.start_all_reduce(Group::world, norm.matrix(), ReduceOp::sum);
    rank.nccl.wait(sum);
    try {
      rank.nccl.barrier(Group::world);
      ADD_FAILURE() << "went on";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("ncclRecv of messages from rank 1"));
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(NcclCommunicator, AnErrorDoesNotWaitForWhatNeverComes) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  const DeviceStream compute;
  OnDevice<int> word(1);
  OnDevice<float> norm(1, 1.0F);
  const auto fail = [&] {
    Rank rank(two_by(1, world()), Seconds{300}, compute.get());
    rank.nccl.barrier(Group::world);
    if (rank.nccl.rank() != 1) {
      Ticket message = rank.nccl.receive(word.matrix(), 1, 0);
      rank.nccl.wait(message);
      rank.nccl.start_all_reduce(Group::world, norm.matrix(), ReduceOp::sum);
    }
    throw OutOfMemory("in the middle");
  };
  EXPECT_THROW(fail(), OutOfMemory);
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace
}  // namespace plumbline
