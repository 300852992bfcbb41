// Rough rates of this machine within a second, for use without a calibrated profile.
#pragma once

#include "analysis/hardware/hardware.hpp"

namespace plumbline::calibration {

/// `guess` with the rates of this processor's products, in fp32 and bf16, and of its memory. One process
/// measures them in about a second: a roofline for rough predictions, whose error is not measured.
HardwareProfile with_quick_rates(HardwareProfile guess);

}  // namespace plumbline::calibration
