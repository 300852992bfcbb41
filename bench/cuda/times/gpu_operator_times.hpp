// Operator measurements of `calibrate --backend cuda`.
#pragma once

#include <functional>

#include "analysis/hardware/hardware.hpp"
#include "bench/cuda/times/clock_rates.hpp"
#include "bench/cuda/times/device_timer.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// Called with the current measurement and the finished share of the work.
using OnGpuProgress = std::function<void(const char* what, double share)>;

/// The table of a profile. Matrix products are those of the three passes of a linear layer, in bf16, fp32
/// and, if the device has them, FP8. Attention is in bf16, every other operator in bf16 and fp32 at three
/// sizes. Operands come from memory. Products that take too long have the rate of the next smaller one.
/// `operators` and `memory` of one device.
OperatorTimes measure_operator_times(Operators& operators, MemorySource& memory, DeviceTimer& timer, bool fp8,
                                     const OnGpuProgress& progress);

/// Rates of a large bf16 product, last: it heats the card.
ClockRates measure_clock_rates(Operators& operators, MemorySource& memory, DeviceTimer& timer);

}  // namespace plumbline
