// A profile under another speed of its machine.
#pragma once

#include "analysis/hardware/hardware.hpp"

namespace plumbline {

/// The profile of the same machine while everything takes `longer` times as long. Tables and overheads scale
/// by class; the part of a table's time above that of the smallest working set scales by `bandwidth`. An
/// accelerator's constants stay.
HardwareProfile at_speed(const HardwareProfile& profile, const ByClass& longer);

}  // namespace plumbline
