// Trust in a hardware profile on the machine where it is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/record/record.hpp"

namespace plumbline {

/// One line for each doubt: a profile that is more than a week old; a class that moved by more than a tenth;
/// a tenth of the figures unsettled, or most sampled only once; a profile of another machine. None for a
/// profile without a calibration time (an accelerator, or older ones). `now`: seconds since 1970. `measured`:
/// the prediction is also measured here, so another machine's profile is a doubt.
std::vector<std::string> doubts_about(const HardwareProfile& hardware, const MachineReport& here,
                                      std::int64_t now, bool measured);

}  // namespace plumbline
