// `plumbline calibrate`: measures this machine's operators and messages and writes a hardware profile.
#pragma once

#include <string>

#include "analysis/hardware/hardware.hpp"
#include "bench/measure/calibrate/calibrate_options.hpp"

namespace plumbline {

/// Writes a profile whole or not at all; to stdout when `path` is empty. Throws OutputError.
void write_profile(const HardwareProfile& profile, const std::string& path);

/// Measures this machine for about a minute and writes the profile:
/// 1. the host's time between operators;
/// 2. in rounds, all operators (alone and with every processor busy, one straight after the other), and
///    messages under mpirun with 2, 4 and 8 ranks;
/// 3. again the unsettled figures, until the time is up.
/// A figure is a low quantile of its samples, with their spread; unsettled figures are reported on standard
/// error. Starts self_path() again as "calibrate --part …". Returns the exit code; throws InputError when
/// `out` cannot be written, before anything is measured.
int calibrate(const CalibrateOptions& options);

}  // namespace plumbline
