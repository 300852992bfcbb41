#include "bench/measure/operators/cpu_timer.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/run/monotonic_clock.hpp"

namespace plumbline {
namespace {

constexpr long kMostEmptied = 256L << 20;  // bytes: virtual machines report the caches of whole hosts
constexpr long kLeastEmptied = 32L << 20;
constexpr std::size_t kLine = 64;
constexpr int kBlocksOfLimit = 25;  // a block takes this part of the limit
constexpr double kMostCalls = 1e6;  // of a block
constexpr int kChain = 2000;        // multiplications
constexpr int kClockLooks = 5;

std::size_t emptied_bytes() {
  long bytes = 0;
  for (const int cache : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE})
    bytes += std::max(0L, sysconf(cache));
  return static_cast<std::size_t>(std::clamp(2 * bytes, kLeastEmptied, kMostEmptied));
}

}  // namespace

double multiplication_clock() {
  double least = 1;
  for (int look = 0; look < kClockLooks; ++look) {  // an interrupt is no low clock
    std::uint64_t x = 3;
    const double start = monotonic_now().value;
    for (int i = 0; i < kChain; ++i) {
      x *= x;
      asm volatile("" : "+r"(x));
    }
    least = std::min(least, monotonic_now().value - start);
  }
  return kChain / std::max(least, 1e-9);
}

CpuTimer::CpuTimer(ClockReader clock) : clock_(std::move(clock)), other_(emptied_bytes()) {}

void CpuTimer::empty_caches() {
  for (std::size_t i = 0; i < other_.size(); i += kLine) other_[i] ^= std::byte{1};
}

BenchedTime CpuTimer::isolated(const std::function<void()>& call, double limit_s) {
  call();
  ClockedSamples samples(clock_, highest_clock_);
  const double begin = monotonic_now().value;
  do {
    empty_caches();
    const double start = monotonic_now().value;
    call();
    samples.add(monotonic_now().value - start);
  } while (!samples.enough(monotonic_now().value - begin >= limit_s));
  return samples.time(1);
}

BenchedTime CpuTimer::batched(const std::function<void()>& call, double limit_s) {
  const auto block = [&](std::int64_t calls) {
    const double start = monotonic_now().value;
    for (std::int64_t i = 0; i < calls; ++i) call();
    return (monotonic_now().value - start) / static_cast<double>(calls);
  };
  call();
  const double once = std::max(std::min(block(1), block(1)), 1e-9);
  const auto calls = static_cast<std::int64_t>(std::clamp(limit_s / kBlocksOfLimit / once, 1.0, kMostCalls));
  ClockedSamples samples(clock_, highest_clock_);
  const double begin = monotonic_now().value;
  do {
    samples.add(block(calls));
  } while (!samples.enough(monotonic_now().value - begin >= limit_s));
  return samples.time(calls);
}

}  // namespace plumbline
