// Measures one configuration in its own mpirun and turns any ending of it into a status with a reason.
//
// The child is `PROGRAM run CONFIG.yaml --json` as a rank. Rank 0 writes {"measurement": {...}} to the file
// that PLUMBLINE_RECORD_OUT names. Exit codes of a rank: 0, 3 if it does not fit into memory, 2 for wrong
// input.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/processes/launch/launch.hpp"
#include "bench/record/record.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

inline constexpr const char* kRecordOutVariable = "PLUMBLINE_RECORD_OUT";
/// Beside "measurement" in that file: why timelines or traces could not be stored, a text.
inline constexpr const char* kUnsavedKey = "unsaved";

/// The program whose ranks measure.
struct CellProgram {
  std::string path = self_path();
  std::vector<std::string> command = {"run"};
};

struct CellRun {
  std::string folder;  // takes NAME.yaml, and NAME.log when the cell does not end well; its parent exists
  std::string name;
  std::function<bool()> go_on;                     // optional; false stops the run
  std::function<void(const OutputLine&)> on_line;  // optional
  /// Optional; takes a line for every file beside the measurement (timelines, log) that could not be stored.
  std::function<void(const std::string&)> on_unsaved = {};
  std::vector<Host> hosts = {};  // that the ranks are started on; none: this one
  Seconds tick{0.1};             // between two calls of go_on, at most
  Seconds timeout{300};          // from one step to the next, where the configuration has no timeout_s
};

/// Sets status, reason, measurement and, when there is a prediction, error. False when the run was stopped:
/// then nothing is known. Throws OutputError when configuration or measurement cannot be written to the
/// folder, Error when mpirun cannot be started.
bool measure_cell(const RunConfig& config, const CellProgram& program, const CellRun& run, Record& record);

/// Status and reason of a record for an ending of the ranks. `result` is not ok().
std::pair<Status, std::string> meaning_of(const LaunchResult& result);

}  // namespace plumbline
