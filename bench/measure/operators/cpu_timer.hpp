// Times of calls on this processor.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/measure/operators/clocked_samples.hpp"
#include "bench/measure/operators/operator_timer.hpp"

namespace plumbline {

/// Clock of the processor that this thread is on, by a chain of multiplications, each of which waits for the
/// one before: multiplications per second. Needs no permission, and sees the clock of a virtual machine, too.
double multiplication_clock();

class CpuTimer final : public OperatorTimer {
 public:
  explicit CpuTimer(ClockReader clock = multiplication_clock);

  BenchedTime isolated(const std::function<void()>& call, double limit_s) override;
  BenchedTime batched(const std::function<void()>& call, double limit_s) override;

 private:
  void empty_caches();

  ClockReader clock_;
  double highest_clock_ = 0;
  std::vector<std::byte> other_;  // more memory than the caches hold, as far as it is affordable
};

}  // namespace plumbline
