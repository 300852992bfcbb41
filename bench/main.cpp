// The `plumbline` program: reads the command line, does one command, turns errors into one line and an exit
// code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/commands/application.hpp"
#include "bench/commands/usage_errors.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

int report(const std::string& line, const std::string& drawing, ExitCode code) {
  say(fmt::format("plumbline: {}\n{}", line, drawing));
  return static_cast<int>(code);
}

/// Variables that contradict each other are for the commands to complain about that need a place.
bool runs_alone() {
  try {
    return already_launched_by() == nullptr;
  } catch (const InputError&) {
    return false;
  }
}

/// Does the work and makes sure that all it printed is where it should be. No exception leaves it.
int execute(const CommandAction& work) {
  try {
    if (runs_alone()) remove_stale_run_folders();
    const int code = work();
    finish_standard_output();
    return code;
  } catch (const Error& error) {
    return report(error.what(), error.drawing(), error.code());
  } catch (const std::exception& error) {
    return report(one_line(error.what()), "", ExitCode::rank_failed);
  }
}

/// Tells failures of printing in the middle of a command apart from the command's own.
int execute_and_print(const CommandAction& action) {
  return execute([&] {
    try {
      return action();
    } catch (const std::system_error& error) {
      if (std::ferror(stdout) == 0) throw;
      finish_standard_output(error.code().value());
      return static_cast<int>(ExitCode::done);  // the reader has had enough
    }
  });
}

/// Reads the command line, which may already refuse an option's value, and does the command.
int do_command(int argc, char** argv) {
  CLI::App app("", "plumbline");
  CommandAction action;
  const bool quiet = argc > 2 && std::string_view(argv[1]) == "--quiet";
  add_commands(app, action, argc > 1 ? argv[quiet ? 2 : 1] : "");
  try {
    std::vector<std::string> words = with_switches_set({argv + std::min(argc, 1), argv + argc});
    std::reverse(words.begin(), words.end());  // as CLI11 wants a vector
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    const bool asked =
        error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);  // --help, --version
    if (!asked) return report(usage_error(app, error), "", ExitCode::bad_input);
    app.exit(error);
    return static_cast<int>(ExitCode::done);
  }
  return action();
}

}  // namespace
}  // namespace plumbline

int main(int argc, char** argv) {
  plumbline::prepare_standard_streams();
  if (const std::optional<int> supervised = plumbline::launch_entry(argc, argv)) return *supervised;
  return plumbline::execute_and_print([=] { return plumbline::do_command(argc, argv); });
}
