// A rehearsal moves no tensors between ranks, and leaves numbers that can be computed with.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "tests/core/backends/fake_gpu/nccl_rank.hpp"

namespace plumbline::nccl_rehearsal_test {
namespace {

using namespace fake;

constexpr float kUntouched = std::numeric_limits<float>::quiet_NaN();

std::int64_t bytes_sent(const Traffic& traffic) {
  std::int64_t bytes = traffic.point_to_point_sent.value;
  for (const GroupTraffic& group : traffic.groups) {
    bytes +=
        (group.all_reduced + group.all_gathered + group.reduce_scattered + group.broadcast + group.exchanged)
            .value;
  }
  return bytes;
}

bool is_finite(OnDevice<float>& x) {
  for (std::int64_t i = 0; i < x.matrix().cols; ++i) {
    if (!std::isfinite(x[static_cast<std::size_t>(i)])) return false;
  }
  return true;
}

/// A step in which every rank gathers, reduces and sends 100 times what a step of a small model has.
TEST(NcclRehearsal, SendsLessThanOneMebibyte) {
  if (world() < 2) GTEST_SKIP() << "needs two ranks";
  Layout layout = two_by(1, world());
  layout.vocab_parallel = true;
  Rank rank(layout);
  const auto calls = fake::calls_made();
  const std::int64_t sent = bytes_sent(rank.control.traffic());
  const std::size_t copied = fake::bytes_between_host_and_device();
  const auto n = static_cast<std::size_t>(world());
  const int me = rank.nccl.rank();
  rank.nccl.rehearse(true);
  for (int time = 0; time < 100; ++time) {
    OnDevice<float> piece(kMany, static_cast<float>(me + 1));
    OnDevice<float> whole(n * kMany, kUntouched);
    rank.finish(rank.nccl.start_all_gather(Group::world, piece.matrix(), whole.matrix()));
    EXPECT_TRUE(is_finite(whole));
    EXPECT_EQ(whole[static_cast<std::size_t>(me) * kMany], static_cast<float>(me + 1));

    OnDevice<float> scattered(kMany, kUntouched);
    Ticket ticket = rank.nccl.start_reduce_scatter(Group::world, whole.matrix(), scattered.matrix());
    rank.finish(rank.nccl.start_all_reduce_after(ticket, {}, Group::vocab_gradient, scattered.matrix(),
                                                 ReduceOp::sum));
    EXPECT_TRUE(is_finite(scattered));
    OnDevice<float> total(kMany, -3);
    rank.finish(rank.nccl.start_reduce(Group::world, 1, piece.matrix(), total.matrix()));
    EXPECT_EQ(total[kMany - 1], me == 1 ? static_cast<float>(me + 1) : -3);

    OnDevice<float> told(kMany, me == 0 ? 7 : kUntouched);
    rank.finish(rank.nccl.start_broadcast(Group::world, 0, told.matrix()));
    EXPECT_TRUE(is_finite(told));
    EXPECT_EQ(told[0] == 7, me == 0);

    OnDevice<float> in(3 * kMany, kUntouched);
    Ticket receive = rank.nccl.receive(in.matrix(), rank.neighbour(-1), 0);
    rank.finish(rank.nccl.send(piece.matrix(), rank.neighbour(), 0));
    rank.nccl.wait(receive);
    EXPECT_TRUE(is_finite(in));
  }
  EXPECT_EQ(fake::calls_made(), calls);
  EXPECT_LT(bytes_sent(rank.control.traffic()) - sent +
                std::int64_t(fake::bytes_between_host_and_device() - copied),
            1 << 20);
  // Awaited calls are made, and everything is as always afterwards.
  OnDevice<float> sum(3, 1);
  rank.nccl.all_reduce(Group::world, sum.matrix(), ReduceOp::sum);
  EXPECT_EQ(sum[2], static_cast<float>(world()));
  rank.nccl.rehearse(false);
  OnDevice<int> word(5, me), heard(5);
  Ticket out = rank.nccl.send(word.matrix(), rank.neighbour(), 0);
  rank.receive(heard.matrix(), rank.neighbour(-1));
  rank.nccl.wait(out);
  EXPECT_EQ(heard[4], rank.neighbour(-1));
  rank.nccl.barrier(Group::world);
}

TEST(NcclRehearsal, StandInsDifferFromRowToRow) {
  StandIns stand_ins;
  constexpr std::int64_t kColumns = 256;
  constexpr std::int64_t kRows = 2000;
  for (const DType type : {DType::fp32, DType::bf16, DType::fp16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    SCOPED_TRACE(size_of(type));
    OnDevice<float> memory(kColumns * kRows);
    const Matrix x(memory.matrix().data, kRows, kColumns, type);
    stand_ins.fill(x, nullptr);
    std::set<std::vector<std::uint8_t>> rows;
    const auto width = static_cast<std::size_t>(kColumns * size_of(type));
    for (std::int64_t row = 0; row < kRows; ++row) {
      const auto* first = static_cast<const std::uint8_t*>(x.data) + static_cast<std::size_t>(row) * width;
      rows.insert(std::vector<std::uint8_t>(first, first + width));
    }
    EXPECT_GE(rows.size(), std::min<std::size_t>(kRows, (std::size_t{1} << 19) / width));
  }
}

}  // namespace
}  // namespace plumbline::nccl_rehearsal_test
