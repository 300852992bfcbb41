// The `plumbline` program: reads the command line, does one command, turns errors into one line and an exit
// code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "bench/commands.hpp"
#include "bench/launch.hpp"
#include "core/error.hpp"

int main(int argc, char** argv) {
  using namespace plumbline;
  if (const std::optional<int> supervised = launch_entry(argc, argv)) return *supervised;

  CLI::App app("Predicts and measures what a parallel training configuration of a language model costs.",
               "plumbline");
  app.require_subcommand(1);
  app.set_version_flag("--version", PLUMBLINE_VERSION);
  CommandAction action;
  add_predict_command(app, action);
  add_run_command(app, action);
  add_oom_command(app, action);
  add_matrix_command(app, action);
  add_calibrate_command(app, action);
  add_compare_command(app, action);
  add_doctor_command(app, action);
  add_schedule_command(app, action);
  add_simulate_command(app, action);
  add_search_command(app, action);
  add_validate_command(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked =
        error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);  // --help, --version
    app.exit(error);
    return static_cast<int>(asked ? ExitCode::done : ExitCode::bad_input);
  }
  try {
    return action();
  } catch (const Error& error) {
    fmt::print(stderr, "plumbline: {}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "plumbline: {}\n", error.what());
    return static_cast<int>(ExitCode::rank_failed);
  }
}
