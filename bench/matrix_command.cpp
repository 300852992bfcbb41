// `plumbline matrix`: predicts and measures every cell of a matrix, resuming where an earlier run stopped.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "bench/cell_timelines.hpp"
#include "bench/commands.hpp"
#include "bench/config_options.hpp"
#include "bench/evaluation.hpp"
#include "bench/matrix_runner.hpp"
#include "bench/plan.hpp"
#include "bench/reports.hpp"
#include "bench/tables.hpp"
#include "core/error.hpp"

namespace plumbline {
namespace {

struct MatrixCommand {
  ConfigOptions config;
  std::string out;
  bool predict_only = false;
  bool retry = false;
  bool json = false;
};

void predict_cell(const MatrixCell& cell, const std::string& folder, std::string& note, Record& record) {
  Record started = start_record(cell.id, cell.config);
  record.config = std::move(started.config);
  record.model = started.model;
  record.status = started.status;
  record.reason = started.reason;
  if (record.status != Status::ok) return;
  const Schedule schedule = schedule_for(cell.config);
  const Prediction prediction = predict(cell.config, schedule, hardware_of(cell.config, note));
  record.prediction = report_of(prediction, cell.config, schedule);
  const auto path = timeline_path(folder, cell.id);
  if (!path || count_actions(schedule) > kMostTimelineActions) return;
  CellTimelines timelines;
  timelines.predicted = predicted_timeline(cell.config, schedule, prediction);
  write_timelines(*path, std::move(timelines));  // a cell that is measured writes it again with both
}

int run_command(const MatrixCommand& command) {
  const std::vector<MatrixCell> cells = load_matrix(command.config.file, command.config.overrides());
  const std::string folder = command.out.empty()
                                 ? std::filesystem::path(command.config.file).stem().string() + "-results"
                                 : command.out;
  RecordStore store(folder, command.predict_only ? kPredictionsFile : kResultsFile);
  std::string note;
  MatrixHooks hooks;
  hooks.machine = this_machine();
  hooks.predict = [&](const MatrixCell& cell, Record& record) { predict_cell(cell, folder, note, record); };
  if (!command.predict_only) {
    hooks.measure = [&](const MatrixCell& cell, const std::function<bool()>& go_on, Record& record) {
      CellProgram program;
      if (const auto path = timeline_path(folder, cell.id)) {
        program.command.insert(program.command.end(),
                               {"--timelines", std::filesystem::absolute(*path).string()});
      }
      return measure_cell(cell.config, program,
                          {.folder = folder + "/cells", .name = cell.id, .go_on = go_on, .on_line = {}},
                          record);
    };
  }
  int done_before = 0;
  const MatrixOptions options{command.retry};
  for (const MatrixCell& cell : cells) done_before += is_done(cell, store, options) ? 1 : 0;
  MatrixOutcome outcome;
  {
    Progress progress(static_cast<int>(cells.size()), done_before);
    outcome = run_matrix(cells, store, hooks, options, progress);
  }
  if (!note.empty()) fmt::print(stderr, "note: {}\n", note);

  std::vector<Record> records;  // of this matrix only, in its order
  for (const MatrixCell& cell : cells) {
    if (const Record* record = store.records().find(cell.id)) records.push_back(*record);
  }
  if (command.json) {
    fmt::print("{}\n", to_json_array(records));
  } else {
    fmt::print("{}\n{}\n", to_table(records, style_of_standard_output()), to_line(summarize(records)));
  }
  return outcome.stopped ? static_cast<int>(ExitCode::rank_failed) : static_cast<int>(ExitCode::done);
}

}  // namespace

void add_matrix_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("matrix", "Predict and measure every cell of a matrix; resumes by default");
  const auto options = std::make_shared<MatrixCommand>();
  add_config_options(*command, options->config, "MATRIX.yaml");
  command->add_option("--out", options->out, "Folder of the results (default: MATRIX-results)")
      ->type_name("DIR");
  command->add_flag("--predict-only", options->predict_only, "Measure nothing");
  command->add_flag("--retry", options->retry, "Run cells again that failed or timed out");
  command->add_flag("--json", options->json, "Print the records as a JSON array");
  command->callback([=, &action] { action = [=] { return run_command(*options); }; });
}

}  // namespace plumbline
