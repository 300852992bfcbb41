// Predicts and measures the cells of a matrix into a results folder: common code of `matrix` and `oom`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/matrix/cell_estimates.hpp"
#include "bench/processes/hosts/host_list.hpp"
#include "bench/record/record.hpp"
#include "core/base/error.hpp"
#include "core/config_text/matrix_config.hpp"

namespace plumbline {

struct CellsRequest {
  std::string folder;  // results go there
  bool predict_only = false;
  bool retry = false;            // cells again that ended neither ok nor oom
  int rounds = 1;                // times that every cell is measured
  bool quiet = false;            // no progress
  bool share = false;            // others may run cells into the same folder at the same time
  std::vector<Host> hosts = {};  // that ranks are started on; none: this one
  std::string chosen = {};       // size of the cells, reported with their duration
  bool timelines = true;         // a file for each cell
  /// Called with each cell's record: at the start with those that the folder has, then as each is stored.
  std::function<void(const Record&)> on_record = [](const Record&) {};
};

struct CellsResult {
  std::vector<Record> records;  // of these cells, in their order; a cell that was not reached has none
  bool stopped = false;         // by Ctrl-C or a signal
};

/// Runs the cells that the folder does not have yet. The expected duration, progress and notes go to standard
/// error. Throws OutputError when the folder cannot be written, InputError when it is in use, nothing can be
/// measured here, or a hardware profile cannot be read: then nothing is stored.
CellsResult run_cells(const std::vector<MatrixCell>& cells, const CellsRequest& request,
                      CellEstimates& estimates);

/// Exit code of `matrix` and `oom`: timed out when a cell did, rank failed when one failed or the run was
/// stopped, else done. A line on standard error says when cells were to be measured and none was.
ExitCode ending_of(const CellsResult& result, bool predict_only);

/// True if cells get timeline files, of about a megabyte each. `when`: always, never, or auto. With auto,
/// predictions of many cells get none, and a note says so.
bool keeps_timelines(const std::string& when, bool predict_only, std::size_t cells);

/// DIR, or by default the name of the matrix's file (or preset, or folder) with "-results", in the current
/// folder.
std::string results_folder(const std::string& out, const std::string& matrix);

}  // namespace plumbline
