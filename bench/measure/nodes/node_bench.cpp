#include "bench/measure/nodes/node_bench.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <string>
#include <thread>
#include <utility>

#include "bench/measure/operators/benched_call.hpp"
#include "bench/measure/operators/cpu_timer.hpp"
#include "core/backends/mpi/check.hpp"
#include "core/run/monotonic_clock.hpp"

namespace plumbline {
namespace {

constexpr int kMostLooks = 6;
constexpr double kBlockSeconds = 200e-6;
constexpr int kSamples = 10;  // of the product between barriers: the first ones find cold caches
constexpr std::int64_t kCopyWidth = 1 << 20, kCopyRows = 8;  // elements; beyond a core's own caches
constexpr int kMostPairs = 32;                               // rounds of pairs
constexpr int kPings = 50;
constexpr int kTransfers = 10;
constexpr int kTransferBytes = 1 << 20;
constexpr int kNodeTag = 83;

/// Rank 0's decision.
bool all_agree(bool decision) {
  int value = decision ? 1 : 0;
  check_mpi(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  return value == 1;
}

template <class Value>
std::vector<Value> of_all_ranks(Value value, int ranks) {
  constexpr int kBytes = sizeof(Value);
  std::vector<Value> all(static_cast<std::size_t>(ranks));
  check_mpi(MPI_Allgather(&value, kBytes, MPI_BYTE, all.data(), kBytes, MPI_BYTE, MPI_COMM_WORLD),
            "MPI_Allgather");
  return all;
}

/// Shortest time of one call over all samples.
class ShortestTime {
 public:
  ShortestTime(PreparedOperator prepared, Operators& operators, bool on_device)
      : prepared_(std::move(prepared)), operators_(operators), on_device_(on_device) {
    for (int warm = 0; warm < 2; ++warm) (void)block(1);
    calls_ = std::max(1, static_cast<int>(kBlockSeconds / std::max(block(1), 1e-9)));
  }
  void sample() { shortest_ = std::min(shortest_, block(calls_)); }
  double seconds() const { return shortest_; }
  double bytes() const { return prepared_.bytes; }

 private:
  double now() const {
    if (on_device_) {
      operators_.synchronize();
      return monotonic_now().value;
    }
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double block(int calls) {
    const double start = now();
    for (int i = 0; i < calls; ++i) prepared_.run();
    return (now() - start) / calls;
  }

  PreparedOperator prepared_;
  Operators& operators_;
  bool on_device_;
  int calls_ = 1;
  double shortest_ = 1e9;
};

BenchedShape copy_shape() {
  BenchedShape shape;
  shape.kind = BenchedOperator::memory_bound;
  shape.name = "copy";
  shape.tokens = kCopyRows;
  shape.width = kCopyWidth;
  return shape;
}

/// Partner in a round of a tournament of `ranks`; -1: none.
int partner_in(int round, int rank, int ranks) {
  const int players = ranks + ranks % 2, last = players - 1;
  int partner = 0;
  if (rank == last) {
    partner = round * (players / 2) % last;  // x with 2x = round, modulo the odd `last`
  } else {
    partner = ((round - rank) % last + last) % last;
    if (partner == rank) partner = last;
  }
  return partner < ranks ? partner : -1;
}

PairReport messages_with(int partner, int rank) {
  PairReport pair{partner, 1e9, 0};
  std::vector<std::byte> in(kTransferBytes), out(kTransferBytes);
  const auto exchange = [&](int bytes) {
    const double start = monotonic_now().value;
    check_mpi(MPI_Sendrecv(out.data(), bytes, MPI_BYTE, partner, kNodeTag, in.data(), bytes, MPI_BYTE,
                           partner, kNodeTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              "MPI_Sendrecv");
    return monotonic_now().value - start;
  };
  const auto ping = [&] {
    const bool first = rank < partner;
    const double start = monotonic_now().value;
    if (first) check_mpi(MPI_Send(out.data(), 8, MPI_BYTE, partner, kNodeTag, MPI_COMM_WORLD), "MPI_Send");
    check_mpi(MPI_Recv(in.data(), 8, MPI_BYTE, partner, kNodeTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE),
              "MPI_Recv");
    if (!first) check_mpi(MPI_Send(out.data(), 8, MPI_BYTE, partner, kNodeTag, MPI_COMM_WORLD), "MPI_Send");
    return (monotonic_now().value - start) / 2;
  };
  (void)exchange(kTransferBytes);
  for (int i = 0; i < kPings; ++i) pair.latency_s = std::min(pair.latency_s, ping());
  double shortest = 1e9;
  for (int i = 0; i < kTransfers; ++i) shortest = std::min(shortest, exchange(kTransferBytes));
  pair.bandwidth = kTransferBytes / shortest;
  return pair;
}

std::vector<PairReport> bench_pairs(int rank, int ranks) {
  std::vector<PairReport> pairs;
  const int rounds = std::min(ranks + ranks % 2 - 1, kMostPairs);
  for (int round = 0; ranks > 1 && round < rounds; ++round) {
    const int partner = partner_in(round, rank, ranks);
    check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    if (partner >= 0) pairs.push_back(messages_with(partner, rank));
  }
  return pairs;
}

std::vector<NodeReport> gathered(const NodeReport& own, int ranks) {
  const std::string text = to_json(own).dump();
  const auto length = static_cast<int>(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(ranks)), places(static_cast<std::size_t>(ranks));
  check_mpi(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Gather");
  int end = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    places[i] = end;
    end += lengths[i];
  }
  std::string all(static_cast<std::size_t>(end), ' ');
  check_mpi(MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), places.data(), MPI_CHAR, 0,
                        MPI_COMM_WORLD),
            "MPI_Gatherv");
  std::vector<NodeReport> reports;
  for (std::size_t i = 0; own.rank == 0 && i < lengths.size(); ++i) {
    const std::size_t first = static_cast<std::size_t>(places[i]),
                      count = static_cast<std::size_t>(lengths[i]);
    reports.push_back(parse_node_report(std::string_view(all).substr(first, count), "a rank's report"));
  }
  return reports;
}

}  // namespace

std::vector<NodeReport> bench_nodes(Operators& operators, MemorySource& memory, NodeReport own,
                                    const NodeBenchOptions& options) {
  int ranks = 1;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &ranks), "MPI_Comm_size");
  ShortestTime product(prepare(options.product, operators, memory), operators, options.on_device);
  ShortestTime copy(prepare(copy_shape(), operators, memory), operators, options.on_device);
  const std::vector<std::size_t> hosts = of_all_ranks(std::hash<std::string>{}(own.host), ranks);
  for (int look = 0; look < kMostLooks; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::duration<double>(options.limit_s));
    const double begin = monotonic_now().value;
    do {
      check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
      for (int i = 0; i < kSamples; ++i) product.sample();
      copy.sample();
      own.clock = std::max(own.clock, multiplication_clock());
    } while (all_agree(monotonic_now().value - begin < options.limit_s));
    const bool slow = any_slow(of_all_ranks(product.seconds(), ranks), of_all_ranks(copy.seconds(), ranks),
                               hosts, options.limits);
    if (!slow) break;
  }
  if (options.look) {
    for (int i = 0; i < 10; ++i) product.sample();
    options.look(own.health);
  }
  const auto number = [](std::int64_t size) { return static_cast<double>(size); };
  own.product_s = product.seconds();
  own.product_flops = 2 * number(options.product.m) * number(options.product.n) * number(options.product.k);
  own.copy_s = copy.seconds();
  own.copy_bytes = copy.bytes();
  own.pairs = bench_pairs(own.rank, ranks);
  return gathered(own, ranks);
}

}  // namespace plumbline
