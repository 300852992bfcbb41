// Benchmarks of collectives over MPI: their rows, and elements that went wrong.
#include "bench/measure/collectives/collective_bench.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/statistics.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::collective_bench_test {
namespace {

int world() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

std::vector<BenchedCall> all_calls() {
  std::vector<BenchedCall> calls;
  for (const BenchedKind& kind : benched_kinds()) {
    if (!kind.is_osu() || world() % 2 == 0) calls.push_back(kind.call);
  }
  return calls;
}

/// Passes calls on to MPI; once, one bit of what this rank receives is flipped.
class Flipping final : public Communicator {
 public:
  Flipping(MpiCommunicator& inner, unsigned seed)
      : Communicator(inner.layout(), inner.rank()), inner_(inner), random_(seed) {}

  void barrier(Group group) override { inner_.barrier(group); }
  Seconds now() const override { return inner_.now(); }
  /// Flips a bit of the next output that is written on the rank.
  void spoil_next(int rank) { spoils_ = rank == this->rank(); }
  /// From now on of every one.
  void spoil_all() { spoils_ = always_ = true; }

 private:
  Ticket begin(const Collective& call) override {
    inner_.run(call);
    spoil(call.output);
    return {};
  }
  Ticket begin(const PointToPoint& message) override {
    Ticket ticket = inner_.start(message);
    if (message.kind == PointToPoint::Kind::receive) received_ = message.buffer;
    return ticket;
  }
  Ticket begin(Follower /*follower*/) override { return {}; }
  void finish(Ticket& ticket) override {
    inner_.wait(ticket);
    if (!received_.empty()) spoil(received_);
  }
  void copy(const Collective& /*call*/) override {}

  void spoil(const Matrix& output) {
    if (!spoils_) return;
    spoils_ = always_;
    const auto bits = static_cast<std::uint64_t>(output.bytes().value) * 8;
    const std::uint64_t bit = std::uniform_int_distribution<std::uint64_t>(0, bits - 1)(random_);
    static_cast<std::byte*>(output.data)[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }

  MpiCommunicator& inner_;
  std::mt19937_64 random_;
  bool spoils_ = false;
  bool always_ = false;
  Matrix received_;
};

TEST(CollectiveBench, MeasuresEveryKindWithoutWrongElements) {
  for (const Group group : {Group::world, Group::tensor, Group::data}) {
    Layout layout{1, world(), 1};
    if (group == Group::tensor) layout = {world(), 1, 1};
    if (group == Group::data) layout = {1, 1, world()};
    MpiCommunicator communicator(layout);
    const auto operators = make_cpu_operators();
    const auto memory = host_memory();
    for (const DType type : {DType::fp32, DType::bf16, DType::int32}) {
      if (world() > 2 && type != DType::bf16) continue;  // ranks that share processors wait long
      std::vector<CollectiveRow> rows;
      const BenchRequest request{all_calls(), {4, 1 << 16, 64}, type, group, 0.002};
      EXPECT_EQ(bench_collectives(communicator, *operators, *memory, request,
                                  [&](const CollectiveRow& row) { rows.push_back(row); }),
                0);
      if (communicator.rank() != 0) continue;
      ASSERT_FALSE(rows.empty());
      for (const CollectiveRow& row : rows) {
        SCOPED_TRACE(kind_of(row.call).name);
        EXPECT_GT(row.seconds, 0);
        EXPECT_LE(row.low_s, row.seconds);
        EXPECT_GE(row.high_s, row.seconds);
        EXPECT_EQ(row.ranks, world());
        EXPECT_GT(row.calls, 0);
        const CollectiveRow read = parse_collective_row(to_json(row).dump(), "row");
        EXPECT_NEAR(read.seconds / row.seconds, 1, 1e-9);
        EXPECT_NEAR(read.bus_gb(), row.bus_gb(), 1e-9 * row.bus_gb());
        EXPECT_EQ(std::tie(read.call, read.size, read.count, read.in_place, read.group, read.calls),
                  std::tie(row.call, row.size, row.count, row.in_place, row.group, row.calls));
      }
    }
  }
}

TEST(CollectiveBench, CatchesEveryFlippedBit) {
  MpiCommunicator inner({1, world(), 1});
  const auto operators = make_cpu_operators();
  const BenchedGroup group{Group::world, inner.layout().members(Group::world, inner.rank()), inner.rank()};
  std::vector<std::byte> memory(static_cast<std::size_t>(BenchedBuffers::bytes_needed(1 << 16)));
  int caught = 0;
  int tries = 0;
  for (const BenchedKind& kind : benched_kinds()) {
    if (kind.between_pairs || kind.call == BenchedCall::broadcast) continue;  // no output on the root
    for (const DType type : {DType::fp32, DType::bf16, DType::int32}) {
      for (unsigned seed = 0; seed < 100; ++seed) {
        Flipping communicator(inner, seed);
        const BenchedBuffers buffers(kind, group, false, type, 96, memory.data());
        if (buffers.empty()) continue;
        buffers.fill(*operators);
        communicator.spoil_next(static_cast<int>(seed) % world());
        Collective call{CollectiveKind::all_reduce, Group::world, buffers.input, buffers.output};
        if (kind.call == BenchedCall::all_gather) call.kind = CollectiveKind::all_gather;
        if (kind.call == BenchedCall::reduce_scatter) call.kind = CollectiveKind::reduce_scatter;
        if (kind.call == BenchedCall::all_to_all || kind.call == BenchedCall::all_to_all_uneven)
          call.kind = CollectiveKind::all_to_all;
        call.sent = buffers.sent;
        call.received = buffers.received;
        communicator.run(call);
        std::int64_t wrong = buffers.wrong(*operators);
        MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
        caught += wrong == 1 ? 1 : 0;
        ++tries;
      }
    }
  }
  EXPECT_GE(tries, 100);
  EXPECT_EQ(caught, tries);
}

TEST(CollectiveBench, ReportsWrongElementsOfARun) {
  MpiCommunicator inner({1, world(), 1});
  const auto operators = make_cpu_operators();
  const auto memory = host_memory();
  Flipping communicator(inner, 1);
  communicator.spoil_all();
  const BenchRequest request{{BenchedCall::all_reduce}, {64, 64, 2}, DType::fp32, Group::world, 0.001};
  std::vector<CollectiveRow> rows;
  const std::int64_t wrong = bench_collectives(communicator, *operators, *memory, request,
                                               [&](const CollectiveRow& row) { rows.push_back(row); });
  EXPECT_EQ(wrong, 2 * world());  // out of place and in place, an element of every rank
  if (inner.rank() == 0) {
    EXPECT_EQ(rows.at(0).wrong, world());
  }
}

TEST(CollectiveBench, KnowsTheIntervalOfAMedian) {
  const MedianInterval five = median_interval({5, 1, 4, 2, 3});
  EXPECT_EQ(five.median, 3);
  EXPECT_EQ(five.low, 1);
  EXPECT_EQ(five.high, 5);
  std::vector<double> many;
  for (int i = 0; i < 101; ++i) many.push_back(i);
  const MedianInterval hundred = median_interval(many);
  EXPECT_EQ(hundred.median, 50);
  EXPECT_EQ(hundred.low, 40);
  EXPECT_EQ(hundred.high, 61);
}

}  // namespace
}  // namespace plumbline::collective_bench_test
