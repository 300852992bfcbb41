// `plumbline oom`: cells of a matrix that fit their memory budget, predicted and measured, next to published
// outcomes.
#include <fmt/format.h>

#include <memory>

#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/evaluate/evaluation.hpp"
#include "bench/matrix/matrix_cells.hpp"
#include "bench/matrix/matrix_source.hpp"
#include "bench/matrix/oom_table.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/reinforcement_parts.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/text/wrap.hpp"
#include "core/base/error.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

struct OomCommand {
  ConfigOptions config;
  std::string out;
  bool predict_only = false;
  bool retry = false;
  bool json = false;
  bool quiet = false;
  std::string timelines = "auto";
};

/// The verdict on a cell without its time.
Fit verdict_on(const RunConfig& config) {
  std::string note;
  if (config.reinforces()) return fit_of(predict_reinforcement(config, hardware_of(config, note), step_for));
  const RepeatedSchedule step = step_for(config);
  return fit_of(config, step.once, hardware_of(config, note), predict_memory(config, step));
}

HypothesisRow test_hypothesis(const MatrixSource& source, const OomMatrix& matrix,
                              const Hypothesis& hypothesis) {
  HypothesisRow row;
  row.name = hypothesis.name;
  for (const MatrixCell& cell : source.cells(hypothesis.settings)) {
    const std::optional<Status> published = matrix.published_of(cell);
    if (!published || !cell.invalid.empty()) continue;
    count_cell(row, *published, verdict_on(cell.config));
  }
  return row;
}

/// Predicted peaks of cells of the matrix under other settings.
PeakOf peaks_of(const MatrixSource& source) {
  return [&source](const auto& values, const Overrides& settings) {
    for (const MatrixCell& cell : source.cells(settings)) {
      if (cell.values != values) continue;
      if (!cell.invalid.empty()) throw InputError(fmt::format("assumptions: {}", cell.invalid));
      return predict_memory(cell.config, step_for(cell.config)).peak;
    }
    throw InputError("assumptions: without: found a key that the matrix varies, expected others");
  };
}

/// The device of the matrix file, unless the command line asks for another budget.
void check_device(OomMatrix& matrix, const std::vector<MatrixCell>& cells, const Overrides& overrides) {
  for (const Override& each : overrides) {
    if (get_config_key(each.key, each.origin).name == "memory_budget") matrix.device.reset();
  }
  for (const MatrixCell& cell : cells) {
    if (matrix.device && cell.invalid.empty()) check_device(*matrix.device, verdict_on(cell.config).budget);
  }
}

const Record* find_record(const std::vector<Record>& records, const std::string& id) {
  for (const Record& record : records) {
    if (record.id == id) return &record;
  }
  return nullptr;
}

int run_command(const OomCommand& command) {
  OomMatrix matrix = load_oom_matrix(command.config.source);
  MatrixSource source(command.config.source, command.config.overrides());
  const std::string folder = results_folder(command.out, command.config.source);
  CellEstimates estimates;
  source.fit_machine(folder, !command.predict_only, estimates);
  const std::vector<MatrixCell> cells = source.cells();
  check_device(matrix, cells, command.config.overrides());
  const CellsResult result =
      run_cells(cells,
                {.folder = folder,
                 .predict_only = command.predict_only,
                 .retry = command.retry,
                 .quiet = command.quiet,
                 .chosen = source.chosen(),
                 .timelines = keeps_timelines(command.timelines, command.predict_only, cells.size())},
                estimates);
  const std::vector<Record>& records = result.records;
  OomTable table;
  table.source = matrix.source;
  for (const MatrixCell& cell : cells) {
    const Record* record = find_record(records, cell.id);
    if (record == nullptr) continue;  // not reached
    const Fit fit = record->prediction ? verdict_on(cell.config) : Fit{};
    table.rows.push_back(row_of(cell, *record, fit, matrix.published_of(cell), command.predict_only));
  }
  for (const Hypothesis& hypothesis : matrix.hypotheses) {
    table.hypotheses.push_back(test_hypothesis(source, matrix, hypothesis));
  }
  table.edge = find_knife_edge(table.rows, records, matrix, peaks_of(source));
  fmt::print("{}\n", command.json ? to_json(table) : within_terminal(to_text(table, terminal_width(stdout))));
  return static_cast<int>(ending_of(result, command.predict_only));
}

}  // namespace

void add_oom_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand(
      "oom", "Compare predicted, measured and published out-of-memory outcomes of a matrix");
  const auto options = std::make_shared<OomCommand>();
  add_config_options(*command, options->config, "MATRIX.yaml");
  command->add_option("--out", options->out, "Output folder (default: MATRIX-results)")->type_name("DIR");
  command->add_flag("--predict-only", options->predict_only, "Predict without measuring");
  command->add_flag("--retry", options->retry, "Repeat cells that ended neither ok nor oom");
  command
      ->add_option("--timelines", options->timelines,
                   "Timeline files, about 1 MB each: auto (up to 500 predicted cells), always, never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_command(*options);
    };
  });
}

}  // namespace plumbline
