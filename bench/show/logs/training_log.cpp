#include "bench/show/logs/training_log.hpp"

#include <ctime>
#include <filesystem>

#include "bench/show/logs/event_file.hpp"
#include "bench/show/logs/mllog.hpp"
#include "bench/show/logs/record_scalars.hpp"
#include "core/base/output_folder.hpp"

namespace plumbline {
namespace {

/// One name: TensorBoard reads all event files of a folder as one run.
constexpr const char* kEventFile = "events.out.tfevents.0000000000.plumbline";

double unix_now() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The folder of an option, which may be a link.
OutputFolder made_folder(const std::string& path) {
  std::error_code ignored;  // why it is missing is said by the next line
  std::filesystem::create_directory(path, ignored);
  return OutputFolder::named(path);
}

void write_events(const std::string& folder, const Record& record, double end) {
  const RecordScalars scalars = scalars_of(record, end);
  for (const auto& [name, list] :
       {std::pair("measured", &scalars.measured), std::pair("predicted", &scalars.predicted)})
    if (!list->empty()) OutputFolder::make(folder + "/" + name).write(kEventFile, event_file(*list));
}

}  // namespace

void check_can_write_logs(const TrainingLogs& logs, bool of_matrix) {
  if (!logs.mllog.empty()) (of_matrix ? check_can_fill : check_can_write)(logs.mllog, "--mllog");
  if (!logs.tensorboard.empty()) check_can_fill(logs.tensorboard, "--tensorboard");
}

void write_logs(const TrainingLogs& logs, const Record& record) {
  const double end = unix_now();
  if (!logs.mllog.empty()) write_whole_file(logs.mllog, mllog_lines(record, end));
  if (logs.tensorboard.empty()) return;
  made_folder(logs.tensorboard);
  write_events(logs.tensorboard, record, end);
}

void write_cell_logs(const TrainingLogs& logs, const Record& record) {
  const double end = unix_now();
  if (!logs.mllog.empty()) made_folder(logs.mllog).write(record.id + ".log", mllog_lines(record, end));
  if (logs.tensorboard.empty()) return;
  made_folder(logs.tensorboard);
  OutputFolder::make(logs.tensorboard + "/" + record.id);
  write_events(logs.tensorboard + "/" + record.id, record, end);
}

}  // namespace plumbline
