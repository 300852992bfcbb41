// `plumbline matrix`: predicts and measures every cell of a matrix, resuming where an earlier run stopped.
#include <fmt/format.h>

#include <memory>

#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/matrix/matrix_cells.hpp"
#include "bench/text/record_tables.hpp"
#include "core/base/error.hpp"
#include "core/config_text/matrix_config.hpp"

namespace plumbline {
namespace {

struct MatrixCommand {
  ConfigOptions config;
  std::string out;
  bool predict_only = false;
  bool retry = false;
  int rounds = 1;
  bool json = false;
  bool quiet = false;
};

int run_command(const MatrixCommand& command) {
  const std::vector<MatrixCell> cells = load_matrix(command.config.source, command.config.overrides());
  const auto [records, stopped] =
      run_cells(cells, {results_folder(command.out, command.config.source), command.predict_only,
                        command.retry, command.rounds, command.quiet});
  if (command.json) {
    fmt::print("{}\n", to_json_array(records));
  } else {
    fmt::print("{}\n{}\n", to_table(records, style_of_standard_output()), to_line(summarize(records)));
  }
  return stopped ? static_cast<int>(ExitCode::rank_failed) : static_cast<int>(ExitCode::done);
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
  command
      ->add_option("--rounds", options->rounds,
                   "Measure every cell N times, in an order that is shuffled for each round")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  command->add_flag("--json", options->json, "Print the records as a JSON array");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_command(*options);
    };
  });
}

}  // namespace plumbline
