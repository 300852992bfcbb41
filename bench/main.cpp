// The `plumbline` program: reads the command line, does one command, turns errors into one line and an exit
// code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <string_view>

#include "bench/commands.hpp"
#include "bench/launch.hpp"
#include "core/error.hpp"

namespace {

using namespace plumbline;

struct Command {
  std::string_view name;
  void (*add)(CLI::App& app, CommandAction& action);
};
constexpr Command kCommands[] = {
    {"predict", add_predict_command},
    {"run", add_run_command},
    {"oom", add_oom_command},
    {"matrix", add_matrix_command},
    {"calibrate", add_calibrate_command},
    {"compare", add_compare_command},
    {"doctor", add_doctor_command},
    {"schedule", add_schedule_command},
    {"simulate", add_simulate_command},
    {"search", add_search_command},
    {"validate", add_validate_command},
};

/// A command that is named first is the only one needed: describing the options of all of them takes longer
/// than a prediction.
void add_commands(CLI::App& app, CommandAction& action, std::string_view first_argument) {
  const auto* const named = std::find_if(std::begin(kCommands), std::end(kCommands),
                                         [&](const Command& c) { return c.name == first_argument; });
  if (named != std::end(kCommands)) return named->add(app, action);
  for (const Command& command : kCommands) command.add(app, action);
}

}  // namespace

int main(int argc, char** argv) {
  if (const std::optional<int> supervised = launch_entry(argc, argv)) return *supervised;

  CLI::App app("Predicts and measures what a parallel training configuration of a language model costs.",
               "plumbline");
  app.require_subcommand(1);
  app.set_version_flag("--version", PLUMBLINE_VERSION);
  CommandAction action;
  add_commands(app, action, argc > 1 ? argv[1] : "");
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
