// A second's look at this machine where no calibrated profile is at hand.
#pragma once

#include "analysis/hardware/hardware.hpp"

namespace plumbline::calibration {

/// `guess` with the rates of this processor's products, in fp32 and bf16, and of its memory, measured in about a second and
/// by one process: a roofline, from which durations are predicted roughly; their error is not measured.
HardwareProfile with_quick_rates(HardwareProfile guess);

}  // namespace plumbline::calibration
