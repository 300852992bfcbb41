// What the training step spends between operators.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "core/base/units.hpp"

namespace plumbline::calibration {

/// What it takes to take one tensor from the arena and give it back.
Seconds measure_allocation();

struct HostTime {
  Seconds call;    // from one operator to the next
  Seconds action;  // on top of that, per action
  Seconds step;    // on top of that, per step
};

/// Runs steps of the real training code on one rank, on models of hidden size 16, and takes away what passes inside
/// operators. Of the rest, what grows with the layers belongs to calls, what grows with the micro-batches beyond
/// that to actions, and what is left to the step. `allocation`: of one tensor, which is known.
HostTime measure_host_time(Seconds allocation);

/// What a call takes in a step beyond its time in `profile`'s tables, where the same call is repeated: code and operands
/// that other operators have pushed out of the nearest caches. From the same tiny steps, which are nothing but calls;
/// what the deeper one takes longer than predicted, per call. Not negative.
Seconds measure_cold_call(const HardwareProfile& profile);

}  // namespace plumbline::calibration
