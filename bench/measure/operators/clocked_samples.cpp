#include "bench/measure/operators/clocked_samples.hpp"

#include <algorithm>

#include "bench/measure/operators/operator_timer.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kLowClock = 0.75;  // nvbench's default (--throttle-threshold)
constexpr std::size_t kFewestSamples = 5;
constexpr std::size_t kFewestSpread = 3;  // an interval needs some

}  // namespace

void ClockedSamples::add(double seconds) {
  const double clock = clock_();
  highest_ = std::max(highest_, clock);
  seconds_.push_back(seconds);
  clocks_.push_back(clock);
}

std::vector<double> ClockedSamples::counted() const {
  std::vector<double> counted;
  for (std::size_t i = 0; i < seconds_.size(); ++i) {
    if (clocks_[i] >= kLowClock * highest_) counted.push_back(seconds_[i]);
  }
  return counted;
}

bool ClockedSamples::enough(bool time_is_up) const {
  if (time_is_up) return seconds_.size() >= kFewestSpread;
  const std::vector<double> fast = counted();
  return fast.size() >= kFewestSamples && median_interval(fast).spread() <= kNarrowInterval;
}

BenchedTime ClockedSamples::time(std::int64_t calls) const {
  std::vector<double> fast = counted();
  BenchedTime time;
  time.slow = fast.empty();
  time.throttled = static_cast<int>(seconds_.size() - fast.size());
  if (time.slow) fast = seconds_;
  const MedianInterval interval = median_interval(fast);
  time.seconds = interval.median;
  time.low_s = interval.low;
  time.high_s = interval.high;
  time.calls = calls * static_cast<std::int64_t>(fast.size());
  time.clock = highest_ > 0 ? median(clocks_) / highest_ : 0;
  return time;
}

}  // namespace plumbline
