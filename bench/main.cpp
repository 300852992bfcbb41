// The `plumbline` program: reads the command line, does one command, turns errors into one line and an exit
// code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "bench/commands/application.hpp"
#include "bench/commands/usage_errors.hpp"
#include "bench/launch/launch.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"

int main(int argc, char** argv) {
  using namespace plumbline;
  if (const std::optional<int> supervised = launch_entry(argc, argv)) return *supervised;

  CLI::App app("", "plumbline");
  CommandAction action;
  add_commands(app, action, argc > 1 ? argv[1] : "");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked =
        error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);  // --help, --version
    if (asked) {
      app.exit(error);
    } else {
      fmt::print(stderr, "plumbline: {}\n", usage_error(app, error));
    }
    return static_cast<int>(asked ? ExitCode::done : ExitCode::bad_input);
  }
  try {
    return action();
  } catch (const Error& error) {
    fmt::print(stderr, "plumbline: {}\n{}", error.what(), error.drawing());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "plumbline: {}\n", one_line(error.what()));
    return static_cast<int>(ExitCode::rank_failed);
  }
}
