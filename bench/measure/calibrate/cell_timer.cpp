#include "bench/measure/calibrate/cell_timer.hpp"

#include <algorithm>
#include <ctime>

#include "core/backends/mpi/clock.hpp"
#include "core/base/statistics.hpp"

namespace plumbline::calibration {
namespace {

constexpr double kLookSeconds = 1e-3;
constexpr std::size_t kFewest = 3;
constexpr double kLongLook = 2.5e-3;  // seconds of calls after which fewer than kFewest are enough
/// Calls are timed in batches of this length: later calls pay for the cache lines that a call leaves dirty.
constexpr double kBatchSeconds = 60e-6;
/// Reading the processor's clock is a system call; shorter calls are rarely interrupted, and the median
/// ignores it.
constexpr double kLongCallSeconds = 200e-6;

/// Time this thread has spent on a processor.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double clock_seconds(bool of_processor) {
  return of_processor ? processor_seconds() : monotonic_now().value;
}

}  // namespace

void CellTimer::begin(const Cell& cell, std::int64_t first) {
  pools_.set_storage(cell.storage);
  call_ = cell.prepare(operators_, pools_);
  if (cell.working_set + 1 < kWorkingSets.size()) pools_.touch_all();
  parts_ = cell.parts;
  next_ = first;
  batch_ = 1;
  processor_clock_ = true;
  once_ = run_batch();
  if (once_ < kLookSeconds) once_ = run_batch();
  processor_clock_ = once_ > kLongCallSeconds;
  batch_ = static_cast<std::int64_t>(std::clamp(kBatchSeconds / std::max(once_, 1e-9), 1.0, 64.0));
}

double CellTimer::look() {
  sample();
  return lower_median(samples_) / parts_;
}

double CellTimer::usual() {
  sample();
  return (processor_clock_ ? mean(samples_) : lower_median(samples_)) / parts_;
}

void CellTimer::sample() {
  samples_.clear();
  const double start = monotonic_now().value;
  double passed = 0;
  while ((passed < kLookSeconds || samples_.size() < kFewest) && (samples_.empty() || passed < kLongLook)) {
    samples_.push_back(run_batch());
    passed = monotonic_now().value - start;
  }
}

double CellTimer::run_batch() {
  const double start = clock_seconds(processor_clock_);
  for (std::int64_t i = 0; i < batch_; ++i) call();
  return (clock_seconds(processor_clock_) - start) / static_cast<double>(batch_);
}

}  // namespace plumbline::calibration
