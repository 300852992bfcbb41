// Runs the missing cells of a matrix, each on its own, and records every one of them in any case.
#pragma once

#include <functional>
#include <vector>

#include "bench/record/cell_claims.hpp"
#include "bench/record/record.hpp"
#include "bench/record/record_store.hpp"
#include "bench/show/text/progress.hpp"
#include "core/config_text/matrix_config.hpp"

namespace plumbline {

/// Hooks of the runner: how to predict and how to measure.
struct MatrixHooks {
  /// Fills machine, model and prediction. An exception makes the cell invalid (InputError) or failed.
  std::function<void(const MatrixCell&, Record&)> predict;
  /// Fills status, reason, measurement and error; false when `go_on` said stop. Empty: predict only. An
  /// exception makes the cell failed, but InputError ends the matrix: then nothing can be measured.
  std::function<bool(const MatrixCell&, const std::function<bool()>& go_on, Record&)> measure;
  /// Goes into every record, the invalid ones included.
  MachineReport machine;
  /// Called with each record when it is stored.
  std::function<void(const Record&)> stored = [](const Record&) {};
};

struct MatrixOptions {
  bool retry = false;  // run cells again that ended neither ok nor oom
  int rounds = 1;  // number of measurements of every cell; from 2 on in an order that is shuffled anew each
                   // time
  CellClaims* claims = nullptr;  // claims of cells by the runners that share the store; with rounds 1 only
};

struct MatrixOutcome {
  int cells = 0;
  int done_before = 0;   // found in the store
  int done_now = 0;      // cells of a round count once each
  bool stopped = false;  // by Ctrl-C or a signal
};

/// True if the store already has the result of a run of this cell.
bool is_done(const MatrixCell& cell, const RecordStore& store, const MatrixOptions& options);

/// Rounds of cells that need not be run.
int count_done(const std::vector<MatrixCell>& cells, const RecordStore& store, const MatrixOptions& options);

/// Runs the missing cells in order and appends each record as soon as it is known. SIGINT and SIGTERM stop
/// the running cell, which is not recorded, print how to continue, and return. Throws Error when a record
/// cannot be stored.
MatrixOutcome run_matrix(const std::vector<MatrixCell>& cells, RecordStore& store, const MatrixHooks& hooks,
                         const MatrixOptions& options, Progress& progress);

}  // namespace plumbline
