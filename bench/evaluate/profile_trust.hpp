// How far a hardware profile can be trusted for the machine that it is used on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/record/record.hpp"

namespace plumbline {

/// One line for each doubt: how old the profile is when it is more than a week, how noisy when a class moved by more than
/// a tenth, a tenth of the figures did not settle or most were looked at only once, and when it is another machine's. None for a profile that does not say
/// when it was calibrated (an accelerator, or older ones). `now`: seconds since 1970. `measured`: here runs what is
/// predicted, so that another machine's profile is a doubt.
std::vector<std::string> doubts_about(const HardwareProfile& hardware, const MachineReport& here,
                                      std::int64_t now, bool measured);

}  // namespace plumbline
