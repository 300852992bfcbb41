// Predicts and measures the cells of a matrix into a results folder: what `matrix` and `oom` share.
#pragma once

#include <string>
#include <vector>

#include "bench/hosts/host_list.hpp"
#include "bench/matrix/cell_estimates.hpp"
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
  std::string chosen = {};       // size of the cells, told with how long they will take
  bool timelines = true;         // a file for each cell
};

struct CellsResult {
  std::vector<Record> records;  // of these cells, in their order; a cell that was not reached has none
  bool stopped = false;         // by Ctrl-C or a signal
};

/// Runs what the folder does not have yet. How long that will take, progress and notes go to standard error. Throws InputError when
/// the folder cannot be used, nothing can be measured here, or a hardware profile cannot be read: then nothing is stored.
CellsResult run_cells(const std::vector<MatrixCell>& cells, const CellsRequest& request,
                      CellEstimates& estimates);

/// How `matrix` and `oom` end: timed out when a cell did, rank failed when one failed or the run was stopped, else done. A
/// line on standard error says when cells were to be measured and none was.
ExitCode ending_of(const CellsResult& result, bool predict_only);

/// Whether cells get files of their timelines, each of about a megabyte: `when` is always, never, or auto, for which
/// predictions of many cells go without, and a note says so.
bool keeps_timelines(const std::string& when, bool predict_only, std::size_t cells);

/// DIR, or what a matrix' results are put in without it: the name of its file (or preset, or folder) with
/// "-results", in the current folder.
std::string results_folder(const std::string& out, const std::string& matrix);

}  // namespace plumbline
