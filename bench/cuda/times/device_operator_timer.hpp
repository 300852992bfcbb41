// Isolated and batched times of operators on a GPU.
#pragma once

#include <utility>

#include "bench/cuda/times/device_timer.hpp"
#include "bench/measure/operators/clocked_samples.hpp"
#include "bench/measure/operators/operator_timer.hpp"

namespace plumbline {

/// Isolated: DeviceTimer::burst(); batched: blocks of DeviceTimer::sustained().
class DeviceOperatorTimer final : public OperatorTimer {
 public:
  /// `timer` must outlive it. `clock`: of the multiprocessors.
  DeviceOperatorTimer(DeviceTimer& timer, ClockReader clock) : timer_(timer), clock_(std::move(clock)) {}

  BenchedTime isolated(const std::function<void()>& call, double limit_s) override;
  BenchedTime batched(const std::function<void()>& call, double limit_s) override;

 private:
  DeviceTimer& timer_;
  ClockReader clock_;
  double highest_clock_ = 0;
};

}  // namespace plumbline
