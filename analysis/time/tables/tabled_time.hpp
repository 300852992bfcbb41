// Times of operators by the tables of a profile that calibrate measured.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/time/tables/load.hpp"
#include "analysis/work/operator_call.hpp"

namespace plumbline {

/// Seconds of one product, attention or streaming operator; negative if the profile's tables have none.
double tabled_time(const OperatorCall& call, const HardwareProfile& hardware, const Load& load);

}  // namespace plumbline
