// Output and ending of a launched program.
#pragma once

#include <string>

#include "core/base/units.hpp"

namespace plumbline {

/// One line of output. `rank` is -1 for mpirun's own words.
struct OutputLine {
  int rank = -1;
  bool error_stream = false;
  std::string text;
};

enum class Ending { exited, signalled, timed_out, stopped };

/// Culprit of a bad end; mpirun also stands for unknown.
enum class Culprit { mpirun, rank, supervisor };

inline constexpr int kUnknownExitCode = -1;

struct LaunchResult {
  Ending ending = Ending::exited;
  int exit_code = 0;  // of the first rank that failed, or of mpirun; kUnknownExitCode when it hung after that
  int signal = 0;     // when signalled
  Culprit culprit = Culprit::mpirun;
  int rank = -1;  // which one, -1 when unknown
  Seconds duration;
  std::string standard_output;
  std::string standard_error;  // ranks' lines only, each prefixed with "[rank 3]" unless it already is
  std::string mpirun_output;   // mpirun's own words
  std::string complaint;       // message of the first rank that ended itself with MpiSession::guard()
  std::string limits;          // tight_limits() of a launch without a complaint
  bool ok() const { return ending == Ending::exited && exit_code == 0; }
  /// One line for people: the event, its rank, and the last output of that rank (or of any).
  std::string reason() const;
};

}  // namespace plumbline
