#include "core/run/emulated_clock.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace plumbline {
namespace {

constexpr double kSlice = 1e-3;                 // of real time, between two calls of `meanwhile`
constexpr unsigned long kTimerSlackNs = 1'000;  // the kernel's default of 50 us would lengthen every sleep

double monotonic() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void sleep_until(double moment) {
  const double whole = std::floor(moment);
  const timespec until{static_cast<time_t>(whole), static_cast<long>((moment - whole) * 1e9)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

}  // namespace

EmulatedClock::EmulatedClock(double factor, Seconds clock_offset)
    : factor_(factor), clock_offset_(clock_offset) {
  if (runs()) prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
}

EmulatedClock EmulatedClock::of_virtual_time() {
  EmulatedClock clock(0);
  clock.factor_ = 1;
  clock.virtual_ = true;
  return clock;
}

Seconds EmulatedClock::now() const {
  if (virtual_) return busy_until_;
  const Seconds real = Seconds{monotonic()} + clock_offset_;
  return runs() ? real / factor_ : real;
}

Seconds EmulatedClock::position() const {
  if (!runs()) return {0};
  if (virtual_) return busy_until_;
  return std::max(busy_until_, now() - kLateness / factor_);
}

void EmulatedClock::advance(Seconds work) {
  if (!runs()) return;
  busy_until_ = position() + work;
  worked_ += work;
}

void EmulatedClock::advance_to(Seconds moment) {
  if (runs()) busy_until_ = std::max(busy_until_, moment);
}

void EmulatedClock::catch_up(const std::function<void()>& meanwhile) const {
  if (!runs() || virtual_) return;
  const double end = (busy_until_ * factor_ - clock_offset_).value;
  while (true) {
    const double real = monotonic();
    if (real >= end) return;
    sleep_until(meanwhile ? std::min(end, real + kSlice) : end);
    if (meanwhile) meanwhile();
  }
}

}  // namespace plumbline
