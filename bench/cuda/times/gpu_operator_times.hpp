// What `calibrate --backend cuda` measures of a card's operators.
#pragma once

#include <functional>

#include "analysis/hardware/hardware.hpp"
#include "bench/cuda/times/device_timer.hpp"
#include "core/tensor/arena.hpp"
#include "kernels/operators.hpp"

namespace plumbline {

/// Called with what is measured now and the share of the work that is done.
using OnGpuProgress = std::function<void(const char* what, double share)>;

/// The table of a profile: matrix products of the three passes of a linear layer in bf16 and fp32 and, where the device has
/// them, of FP8 operands; attention in bf16; every other operator in bf16 and fp32 at three sizes. Operands come from
/// memory. Products that take too long have the rate of the next smaller one. `operators` and `memory` of one device.
OperatorTimes measure_operator_times(Operators& operators, MemorySource& memory, DeviceTimer& timer, bool fp8,
                                     const OnGpuProgress& progress);

}  // namespace plumbline
