// Options of a calibration.
#pragma once

#include <string>

namespace plumbline {

struct CalibrateOptions {
  std::string out;       // profile file; empty: the profile goes to stdout
  bool quiet = false;    // no progress on stderr
  std::string hardware;  // backend cuda: the accelerator or profile whose constants are kept
  /// Set on the ranks that calibration starts under mpirun, by hidden options that the command line passes
  /// through: "looks" (at operators), "messages", "host" or "cold" (calls), with backend cuda "operators" or
  /// "device". For looks also the time limit, the number of the round, and a file of known figures.
  std::string part;
  double seconds = 60;
  int round = 0;
  std::string known;
  double most_fp32 = 0;  // operations of the largest product that is looked at (CellLimits); 0: the usual
  double most_bf16 = 0;
};

}  // namespace plumbline
