// Measures one configuration in its own mpirun and turns however that ends into a status with a reason.
//
// The child is `PROGRAM run CONFIG.yaml --json` as a rank. Rank 0 writes {"measurement": {...}} to the file
// that PLUMBLINE_RECORD_OUT names and ends with 0; a rank that does not fit ends with 3, one that finds its
// input wrong with 2.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/launch/launch.hpp"
#include "bench/record/record.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

inline constexpr const char* kRecordOutVariable = "PLUMBLINE_RECORD_OUT";

/// The program whose ranks measure.
struct CellProgram {
  std::string path = self_path();
  std::vector<std::string> command = {"run"};
};

struct CellRun {
  std::string folder;  // takes NAME.yaml, and NAME.log when the cell does not end well
  std::string name;
  std::function<bool()> go_on;                     // optional; false stops the run
  std::function<void(const OutputLine&)> on_line;  // optional
};

/// Sets status, reason, measurement and, when there is a prediction, error. False when the run was stopped:
/// then nothing is known. Throws InputError when the folder cannot be written, Error when mpirun cannot be
/// started.
bool measure_cell(const RunConfig& config, const CellProgram& program, const CellRun& run, Record& record);

/// What an ending of the ranks means for a record: its status and reason. `result` is not ok().
std::pair<Status, std::string> meaning_of(const LaunchResult& result);

}  // namespace plumbline
