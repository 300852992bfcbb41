// A profile under another speed of its machine.
#pragma once

#include "analysis/hardware/hardware.hpp"

namespace plumbline {

/// The profile of the same machine while everything takes `longer` times as long: its tables and overheads, scaled by
/// class; of a table's time, what it is above that of the smallest working set by `bandwidth`. An accelerator's constants stay.
HardwareProfile at_speed(const HardwareProfile& profile, const ByClass& longer);

}  // namespace plumbline
