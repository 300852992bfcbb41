#include "bench/measure/machine/processor_share.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

#include "core/base/run_parallel.hpp"
#include "core/run/processors.hpp"

namespace plumbline {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

double processor_share(Seconds duration) {
  using Clock = std::chrono::steady_clock;
  const auto count = static_cast<std::size_t>(thread_affinity().count);
  const Clock::time_point start = Clock::now();
  const auto end = start + std::chrono::duration<double>(duration.value);
  std::vector<double> got(count);
  run_parallel(count, [&](std::size_t i) {
    const double before = thread_seconds();
    while (Clock::now() < end) continue;
    got[i] = thread_seconds() - before;
  });
  const double wall = std::chrono::duration<double>(Clock::now() - start).count();
  double all = 0;
  for (const double mine : got) all += mine;
  return std::min(1.0, all / (wall * static_cast<double>(count)));
}

}  // namespace plumbline
