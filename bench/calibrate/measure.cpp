#include "bench/calibrate/measure.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>

#include "core/backends/mpi/check.hpp"
#include "core/backends/mpi/clock.hpp"
#include "core/backends/mpi/mpi_header.hpp"
#include "core/base/statistics.hpp"
#include "kernels/cpu/cpu_operators.hpp"

namespace plumbline::calibration {
namespace {

constexpr double kCellSeconds = 0.0025;
constexpr double kPhaseSeconds = 8;  // per storage type; after this no second look is taken
/// Calls in a warm cache are timed in batches of this length.
constexpr double kBatchSeconds = 60e-6;
/// Longer calls are timed in processor time, so that what else runs on the machine does not count. Reading
/// that clock is a system call; shorter calls are rarely interrupted, and the median ignores it.
constexpr double kLongCallSeconds = 200e-6;
constexpr int kSweeps = 2;  // over all cells, and the mean of their times
constexpr std::size_t kMaxSamples = 4096;

/// Time this thread has spent on a processor.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Reads the median of each cell as Google Benchmark reports it.
class Reporter final : public benchmark::BenchmarkReporter {
 public:
  Reporter(std::vector<double>& seconds, const OnProgress& on_progress)
      : seconds_(seconds), on_progress_(on_progress) {}
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.error_occurred) continue;  // skipped: out of time
      const auto index = static_cast<std::size_t>(run.counters.at("cell").value);
      const double median = run.counters.at("median").value;
      seconds_[index] = seconds_[index] > 0 ? (seconds_[index] + median) / kSweeps : median;
    }
    ++done_;
    on_progress_(static_cast<double>(done_) / static_cast<double>(kSweeps * seconds_.size()));
  }

 private:
  std::vector<double>& seconds_;
  const OnProgress& on_progress_;
  std::size_t done_ = 0;
};

/// The benchmark of one cell. `announce` tells the other ranks which cell it is.
class CellBenchmark {
 public:
  CellBenchmark(const std::vector<Cell>& cells, Operators& operators, Pools& pools,
                std::function<void(int)> announce)
      : cells_(cells), operators_(operators), pools_(pools), announce_(std::move(announce)) {}

  void operator()(benchmark::State& state, std::size_t index, bool again) {
    if (again && std::chrono::steady_clock::now() > deadline_) {
      state.SkipWithError("out of time");
      return;
    }
    if (index != current_) {
      current_ = index;
      announce_(static_cast<int>(index));
      call_ = cells_[index].prepare(operators_, pools_);
      const std::size_t set = cells_[index].working_set;
      if (set + 1 < kWorkingSets.size()) pools_.touch_all();
      // Beyond the caches every cell begins elsewhere: the beginning has just been used by the cell before.
      next_ = static_cast<std::int64_t>(index) * 7919;
      batch_ = 1;
      settled_ = cells_[index].working_set > 0;
      processor_clock_ = true;
      double once = run_batch();  // primitives are made, pages are there
      if (once < kCellSeconds) once = run_batch();
      processor_clock_ = once > kLongCallSeconds;
      if (!settled_) {
        batch_ = static_cast<std::int64_t>(std::clamp(kBatchSeconds / std::max(once, 1e-9), 1.0, 64.0));
      }
    }
    samples_.clear();
    for ([[maybe_unused]] auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
      const double seconds = run_batch();
      if (samples_.size() < kMaxSamples) samples_.push_back(seconds);
    }
    state.counters["cell"] = static_cast<double>(index);
    state.counters["median"] = upper_median(samples_) / cells_[index].parts;
  }

 private:
  /// Seconds per call.
  double run_batch() {
    if (settled_) pools_.settle();
    const double start = seconds_now();
    for (std::int64_t i = 0; i < batch_; ++i) call_(next_++);
    return (seconds_now() - start) / static_cast<double>(batch_);
  }
  double seconds_now() const { return processor_clock_ ? processor_seconds() : monotonic_now().value; }

  const std::vector<Cell>& cells_;
  Operators& operators_;
  Pools& pools_;
  std::function<void(int)> announce_;
  std::size_t current_ = static_cast<std::size_t>(-1);
  std::chrono::steady_clock::time_point deadline_ =
      std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                             std::chrono::duration<double>(kPhaseSeconds));
  std::int64_t next_ = 0;
  std::int64_t batch_ = 1;
  bool settled_ = false;
  bool processor_clock_ = true;
  CellCall call_;
  std::vector<double> samples_;
};

std::vector<double> run_cells(const std::vector<Cell>& cells, const OnProgress& on_progress,
                              const std::function<void(int)>& announce) {
  if (cells.empty()) return {};
  const std::unique_ptr<Operators> operators = make_cpu_operators();
  Pools pools(cells.front().storage);
  CellBenchmark bench(cells, *operators, pools, announce);
  bool again = false;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto run = [&bench, &again, i](benchmark::State& state) { bench(state, i, again); };
    benchmark::RegisterBenchmark(cells[i].key.c_str(), run)->MinTime(kCellSeconds);
  }
  std::vector<double> seconds(cells.size());
  Reporter reporter(seconds, on_progress);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    again = sweep > 0;
    benchmark::RunSpecifiedBenchmarks(&reporter);
  }
  benchmark::ClearRegisteredBenchmarks();
  return seconds;
}

/// Repeats whatever cell rank 0 announces until it announces another.
void follow(const std::vector<Cell>& cells) {
  const std::unique_ptr<Operators> operators = make_cpu_operators();
  Pools pools(cells.front().storage);
  int current = 0;
  check_mpi(MPI_Bcast(&current, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
  while (current >= 0) {
    const CellCall call = cells[static_cast<std::size_t>(current)].prepare(*operators, pools);
    int next = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(&next, 1, MPI_INT, 0, MPI_COMM_WORLD, &request), "MPI_Ibcast");
    int done = 0;
    for (std::int64_t i = 0; done == 0; ++i) {
      call(i);
      check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    }
    current = next;
  }
}

}  // namespace

std::vector<double> measure(const std::vector<Cell>& cells, const OnProgress& on_progress) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  if (cells.empty()) return {};
  if (rank != 0) {
    follow(cells);
    return {};
  }
  bool first = true;
  const auto announce = [&first](int cell) {
    // Followers receive the first number with a plain broadcast and every later one while they work.
    if (first) {
      check_mpi(MPI_Bcast(&cell, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    } else {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Ibcast(&cell, 1, MPI_INT, 0, MPI_COMM_WORLD, &request), "MPI_Ibcast");
      check_mpi(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    }
    first = false;
  };
  std::vector<double> seconds = run_cells(cells, on_progress, announce);
  announce(-1);
  return seconds;
}

}  // namespace plumbline::calibration
