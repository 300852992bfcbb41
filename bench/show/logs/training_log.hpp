// Records as files of other tools' logs: options of `run` and `matrix`.
#pragma once

#include <string>

#include "bench/record/record.hpp"

namespace plumbline {

/// Outputs; empty: none.
struct TrainingLogs {
  std::string mllog;        // --mllog: a file of a run, a folder of a matrix
  std::string tensorboard;  // --tensorboard: a folder

  bool any() const { return !mllog.empty() || !tensorboard.empty(); }
};

/// Before long work: throws OutputError naming the option.
void check_can_write_logs(const TrainingLogs& logs, bool of_matrix);

/// One run that ends now: its MLLOG file, and event files below measured/ and predicted/ of the folder.
void write_logs(const TrainingLogs& logs, const Record& record);
/// A cell of a matrix that ends now: ID.log, and the folders ID/measured/ and ID/predicted/. Replaces earlier
/// files.
void write_cell_logs(const TrainingLogs& logs, const Record& record);

}  // namespace plumbline
