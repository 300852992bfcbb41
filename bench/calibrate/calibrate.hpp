// `plumbline calibrate`: measures this machine's operators and messages and writes a hardware profile.
#pragma once

#include <string>

#include "analysis/hardware/hardware.hpp"

namespace plumbline {

struct CalibrateOptions {
  std::string out;       // profile file; empty: the profile goes to stdout
  bool quiet = false;    // no progress on stderr
  std::string hardware;  // backend cuda: the accelerator or profile whose constants are kept
  /// Set on the ranks that calibration starts under mpirun, by the hidden option --part: "operators" (all
  /// ranks run the same operators at once) or "messages". The command line passes it through.
  std::string part;
};

/// Writes a profile whole or not at all; to stdout when `path` is empty. Throws InputError.
void write_profile(const HardwareProfile& profile, const std::string& path);

/// Runs micro-benchmarks for about half a minute, at most 60 s, and writes the profile. Operators are timed
/// alone and with every processor busy (processor time, median of repetitions, averaged over two sweeps as
/// far as time allows);
/// collectives and messages under mpirun with 2, 4 and 8 ranks (wall time, the quietest third). Starts
/// self_path() again as "calibrate --part …". Returns the exit code; throws InputError when `out` cannot be
/// written, before anything is measured.
int calibrate(const CalibrateOptions& options);

}  // namespace plumbline
