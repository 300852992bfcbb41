// The clock of an emulated rank: work takes the time it is said to take, and no processor while it lasts.
#pragma once

#include <functional>

#include "core/base/units.hpp"

namespace plumbline {

/// Keeps the moment up to which an emulated rank is busy, on a clock on which one second lasts `factor`
/// seconds. All times here are of that clock. Work is added without waiting; the rank sleeps when it catches
/// up. A rank that wakes up late is not behind. It starts the next work where it should have been, as long as
/// that is at most kLateness of real time ago. So the system's late wake-ups do not add up.
class EmulatedClock {
 public:
  static constexpr Seconds kLateness{1e-3};

  /// `clock_offset` is added to CLOCK_MONOTONIC, so that all ranks have one clock. With a factor of 0 nothing
  /// takes time: nothing here does anything, and now() is the unscaled clock.
  explicit EmulatedClock(double factor, Seconds clock_offset = {});
  /// A clock that no real time moves: only the rank's work and its waiting advance it. Nobody sleeps, and
  /// times are the same in every run on every machine.
  static EmulatedClock of_virtual_time();

  bool runs() const { return factor_ > 0; }
  bool is_virtual() const { return virtual_; }
  double factor() const { return factor_; }
  /// The time, without catching up.
  Seconds now() const;
  /// Up to when the rank is busy; the present when it is idle.
  Seconds position() const;
  /// Adds work that begins at position().
  void advance(Seconds work);
  /// All work that was added; 0 if nothing takes time.
  Seconds worked() const { return worked_; }
  /// Nothing else begins before `moment`.
  void advance_to(Seconds moment);
  /// Sleeps until position(). `meanwhile`, when given, is called about once per millisecond.
  void catch_up(const std::function<void()>& meanwhile = {}) const;

 private:
  bool virtual_ = false;
  double factor_;
  Seconds clock_offset_;
  Seconds busy_until_;
  Seconds worked_;
};

}  // namespace plumbline
