#include "bench/cuda/times/device_operator_timer.hpp"

#include <algorithm>
#include <cmath>

#include "core/run/monotonic_clock.hpp"

namespace plumbline {
namespace {

constexpr int kBlocks = 8;        // of the limit
constexpr double kMedian = 1.25;  // standard error of a median over that of a mean, normal noise

}  // namespace

BenchedTime DeviceOperatorTimer::isolated(const std::function<void()>& call, double limit_s) {
  constexpr double kWaits = 4;  // DeviceTimer ends after this many times its longest
  const DeviceTime measured = timer_.burst(call, {.noise = kNarrowInterval, .longest = {limit_s / kWaits}});
  ClockedSamples sample(clock_, highest_clock_);
  sample.add(measured.median.value);
  BenchedTime time = sample.time(measured.samples);
  const double reach = 1.96 * kMedian * measured.noise / std::sqrt(std::max(1, measured.samples));
  time.low_s = time.seconds * (1 - reach);
  time.high_s = time.seconds * (1 + reach);
  return time;
}

BenchedTime DeviceOperatorTimer::batched(const std::function<void()>& call, double limit_s) {
  ClockedSamples samples(clock_, highest_clock_);
  const double block = limit_s / kBlocks;
  const double begin = monotonic_now().value;
  double once = block;
  do {
    once = timer_.sustained(call, {block}).value;
    samples.add(once);
  } while (!samples.enough(monotonic_now().value - begin >= limit_s));
  return samples.time(std::max<std::int64_t>(1, static_cast<std::int64_t>(block / 2 / std::max(once, 1e-9))));
}

}  // namespace plumbline
