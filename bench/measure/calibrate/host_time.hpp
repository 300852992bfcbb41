// Host time of the training step between operators.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "core/base/units.hpp"

namespace plumbline::calibration {

/// Time to take one tensor from the arena and return it.
Seconds measure_allocation();

struct HostTime {
  Seconds call;    // from one operator to the next
  Seconds action;  // on top of that, per action
  Seconds step;    // on top of that, per step
};

/// Runs steps of the real training code on one rank, on models of hidden size 16, and subtracts the time
/// inside operators. Of the rest, calls get the part that grows with the layers. Actions get the part that
/// grows further with the micro-batches; the step gets the remainder. `allocation`: of one tensor, which is
/// known.
HostTime measure_host_time(Seconds allocation);

/// Extra time of a call in a step over its time in `profile`'s tables, where the same call is repeated. In a
/// step, other operators have pushed code and operands out of the nearest caches. From the same tiny steps,
/// which are nothing but calls: the deeper one's excess over the prediction, per call. Not negative.
Seconds measure_cold_call(const HardwareProfile& profile);

}  // namespace plumbline::calibration
