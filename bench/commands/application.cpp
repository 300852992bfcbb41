#include "bench/commands/application.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "bench/commands/help_command.hpp"
#include "bench/measure/machine/version.hpp"
#include "core/base/one_line.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

struct Command {
  std::string_view name;
  void (*add)(CLI::App& app, CommandAction& action);
};
constexpr Command kCommands[] = {{"predict", add_predict_command},
                                 {"run", add_run_command},
                                 {"matrix", add_matrix_command},
                                 {"compare", add_compare_command},
                                 {"history", add_history_command},
                                 {"oom", add_oom_command},
                                 {"schedule", add_schedule_command},
                                 {"simulate", add_simulate_command},
                                 {"search", add_search_command},
                                 {"ask", add_ask_command},
                                 {"generate", add_generate_command},
                                 {"goodput", add_goodput_command},
                                 {"size", add_size_command},
                                 {"stragglers", add_stragglers_command},
                                 {"diagnose", add_diagnose_command},
                                 {"topology", add_topology_command},
                                 {"operator", add_operator_command},
                                 {"bench", add_bench_command},
                                 {"import-bench", add_import_bench_command},
                                 {"validate", add_validate_command},
                                 {"convert", add_convert_command},
                                 {"calibrate", add_calibrate_command},
                                 {"doctor", add_doctor_command},
                                 {"list", add_list_command},
                                 {"explain-config", add_explain_config_command},
                                 {"export", add_export_command},
                                 {"help", add_help_command},
                                 {"completion", add_completion_commands}};

/// True if the command's options are needed. The manual and completion need all commands, the version none.
/// Otherwise only the one named first, since describing the options of all takes longer than a prediction.
bool needed(const Command& command, std::string_view first_argument) {
  if (first_argument == "--version") return false;
  const auto* const named = std::find_if(std::begin(kCommands), std::end(kCommands),
                                         [&](const Command& each) { return each.name == first_argument; });
  const bool alone = named != std::end(kCommands) && named->add != add_help_command;
  return !alone || named->name == command.name;
}

/// If an option is given several times, the last one counts, as in shell scripts that append to a command
/// line.
void let_the_last_win(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw &&
        option->get_items_expected_max() == 1)
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

}  // namespace

std::vector<std::string> with_switches_set(std::vector<std::string> arguments) {
  // Those that are none are refused as values of the switch, not as arguments too many.
  constexpr std::string_view kValues[] = {"true", "false", "auto", "yes",   "no",   "on",   "off",
                                          "1",    "0",     "True", "False", "TRUE", "FALSE"};
  for (std::size_t i = 0; i < arguments.size() && arguments[i] != "--"; ++i) {
    if (!arguments[i].starts_with("--") || arguments[i].find('=') != std::string::npos) continue;
    const ConfigKey* key = find_config_key(std::string_view(arguments[i]).substr(2));
    if (key == nullptr || key->expected.find("true") == std::string::npos) continue;
    const bool has_value = i + 1 < arguments.size() && std::find(std::begin(kValues), std::end(kValues),
                                                                 arguments[i + 1]) != std::end(kValues);
    if (!has_value) arguments[i] += "=true";
  }
  return arguments;
}

bool is_quiet(const CLI::App& app) {
  const CLI::Option* quiet = app.get_option_no_throw("--quiet");
  return quiet != nullptr && quiet->count() > 0;
}

void add_commands(CLI::App& app, CommandAction& action, std::string_view first_argument) {
  app.description("Predict and measure memory and step time of parallel LLM training");
  use_manual(app);
  app.set_help_flag("-h,--help", "Print a short manual page and exit");
  app.set_help_all_flag("--help-all", "Print the whole manual page and exit");
  app.require_subcommand(1);
  app.set_version_flag("--version", plumbline_version(), "Print the version and exit");
  app.add_flag("--quiet")->description("Suppress progress on standard error");
  for (const Command& command : kCommands) {
    if (needed(command, first_argument)) command.add(app, action);
  }
  let_the_last_win(app);
  for (CLI::App* command : app.get_subcommands({})) {
    command->fallthrough();
    let_the_last_win(*command);
  }
}

}  // namespace plumbline
