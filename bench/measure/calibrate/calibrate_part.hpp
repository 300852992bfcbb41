// The parts of calibration, each on ranks of its own under mpirun.
#pragma once

#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "bench/measure/calibrate/calibrate_options.hpp"

namespace plumbline::calibration {

/// A profile with only the figures of a part: the form of its report.
HardwareProfile part_profile();

/// The body of a rank of a part: "looks" (a round over all cells, or with --known the unsettled ones),
/// "messages" or "host". Returns the exit code.
int run_part(const CalibrateOptions& options);

/// Starts `ranks` ranks of a part, its name and further options, and returns their output. Throws Error.
std::string launch_part(const std::vector<std::string>& part, int ranks, bool quiet);

}  // namespace plumbline::calibration
