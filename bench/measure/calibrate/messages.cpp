#include "bench/measure/calibrate/messages.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>

#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/backends/mpi/mpi_header.hpp"

namespace plumbline::calibration {
namespace {

/// Bytes. Larger ones take proportionally longer: ranks together hold far more than the caches.
constexpr std::int64_t kLargestMessage = std::int64_t{1} << 24;

/// The smallest mean of three consecutive thirds: waiting ranks sleep, so long calls belong to the time, but
/// not a disturbance from outside.
double quietest_third(const std::vector<double>& samples) {
  const std::size_t third = samples.size() / 3;
  double best = 0;
  for (std::size_t part = 0; part < 3; ++part) {
    const auto first = samples.begin() + static_cast<std::ptrdiff_t>(part * third);
    const double mean =
        std::accumulate(first, first + static_cast<std::ptrdiff_t>(third), 0.0) / static_cast<double>(third);
    best = part == 0 ? mean : std::min(best, mean);
  }
  return best;
}

/// Nothing is printed: the times are read from the samples.
class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& /*runs*/) override {}
};

/// Repeats a call that all ranks make together. The number of repetitions is the same on every rank.
double repeat_together(const char* name, std::int64_t bytes, const std::function<void()>& call) {
  const int repetitions = bytes >= (1 << 22) ? 3 : bytes >= (1 << 18) ? 12 : 45;
  check_mpi(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  const int warm_up = bytes >= (1 << 22) ? 1 : 2;  // connections are made, pages are there
  for (int i = 0; i < warm_up; ++i) call();
  std::vector<double> samples;
  benchmark::RegisterBenchmark(name, [&](benchmark::State& state) {
    for (auto _ : state) {
      const auto start = std::chrono::steady_clock::now();
      call();
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      samples.push_back(time.count());
    }
  })->Iterations(repetitions);
  Silent silent;
  benchmark::RunSpecifiedBenchmarks(&silent);
  benchmark::ClearRegisteredBenchmarks();
  return quietest_third(samples);
}

}  // namespace

double collective_seconds(Communicator& communicator, CollectiveKind kind, DType type, bool started,
                          std::int64_t bytes, std::byte* buffer) {
  const int ranks = communicator.layout().tensor;
  const std::int64_t elements = std::max<std::int64_t>(1, bytes / size_of(type) / ranks) * ranks;
  const Matrix whole(buffer, 1, elements, type);
  const Matrix part(buffer + kLargestMessage, 1, elements / ranks, type);
  const auto begin = [&] {
    switch (kind) {
      case CollectiveKind::all_gather:
        return communicator.start_all_gather(Group::tensor, part, whole);
      case CollectiveKind::reduce_scatter:
        return communicator.start_reduce_scatter(Group::tensor, whole, part);
      default:
        return communicator.start_all_reduce(Group::tensor, whole, ReduceOp::sum);
    }
  };
  const auto all = [&] {
    switch (kind) {
      case CollectiveKind::all_gather:
        return communicator.all_gather(Group::tensor, part, whole);
      case CollectiveKind::reduce_scatter:
        return communicator.reduce_scatter(Group::tensor, whole, part);
      default:
        return communicator.all_reduce(Group::tensor, whole, ReduceOp::sum);
    }
  };
  return repeat_together(std::string(name_of(kind)).c_str(), bytes, [&] {
    if (!started) return all();
    Ticket ticket = begin();
    communicator.wait(ticket);
  });
}

double message_seconds(Communicator& communicator, std::int64_t bytes, std::byte* buffer) {
  const int peer = communicator.rank() ^ 1;
  const bool first = communicator.rank() < peer;
  const Matrix out(buffer, 1, bytes / 4, DType::fp32);
  const Matrix in(buffer + bytes, 1, bytes / 4, DType::fp32);
  const auto send = [&] {
    Ticket ticket = communicator.send(out, peer, 1);
    communicator.wait(ticket);
  };
  const auto receive = [&] {
    Ticket ticket = communicator.receive(in, peer, 1);
    communicator.wait(ticket);
  };
  const double round_trip = repeat_together("message", bytes, [&] {
    if (first) {
      send();
      receive();
    } else {
      receive();
      send();
    }
  });
  return round_trip / 2;
}

namespace {

Curve collective_curve(Communicator& communicator, CollectiveKind kind, DType type, bool started,
                       std::byte* buffer) {
  Curve curve;
  for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{1} << 12, std::int64_t{1} << 15,
                                   std::int64_t{1} << 18, std::int64_t{1} << 21, kLargestMessage}) {
    if (!started && bytes == kLargestMessage) continue;  // tensor-parallel messages are smaller
    if (started && bytes < (1 << 12)) continue;          // gradients and parameters are larger
    curve.sizes.push_back(static_cast<double>(bytes));
    curve.seconds.push_back(collective_seconds(communicator, kind, type, started, bytes, buffer));
  }
  return curve;
}

Curve message_curve(Communicator& communicator, std::byte* buffer) {
  Curve curve;
  for (const std::int64_t bytes : {std::int64_t{4}, std::int64_t{1} << 12, std::int64_t{1} << 15,
                                   std::int64_t{1} << 18, std::int64_t{1} << 20, std::int64_t{1} << 22}) {
    curve.sizes.push_back(static_cast<double>(bytes));
    curve.seconds.push_back(message_seconds(communicator, bytes, buffer));
  }
  return curve;
}

}  // namespace

MessageTimes measure_messages() {
  int world = 1;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &world), "MPI_Comm_size");
  std::vector<std::byte> buffer(2 * kLargestMessage);
  MessageTimes times;
  for (int ranks = 2; ranks <= world; ranks *= 2) {
    if (world % ranks != 0) continue;
    MpiCommunicator communicator({ranks, 1, world / ranks});
    for (const CollectiveKind kind : kTimedCollectives) {
      for (const DType type : {DType::fp32, DType::bf16}) {
        for (const bool started : {false, true}) {
          // A gather only copies bytes, of any type: the curve of fp32, two entries before.
          const bool copied = kind == CollectiveKind::all_gather && type == DType::bf16;
          Curve curve = copied ? times.collectives[times.collectives.size() - 2].seconds
                               : collective_curve(communicator, kind, type, started, buffer.data());
          times.collectives.push_back({ranks, world, type, started, std::move(curve), kind});
        }
      }
    }
    if (ranks == 2) times.message = {world, message_curve(communicator, buffer.data())};
  }
  return times;
}

}  // namespace plumbline::calibration
