// The commands of the `plumbline` program, one file each. A command registers itself and, when it is chosen,
// puts the work to do in `action`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace plumbline {

/// Does the command's work and returns the exit code; may throw Error.
using CommandAction = std::function<int()>;

/// True if the user asked for no progress: `--quiet`, which main gives to all commands at once.
bool is_quiet(const CLI::App& app);

void add_predict_command(CLI::App& app, CommandAction& action);
void add_run_command(CLI::App& app, CommandAction& action);
void add_matrix_command(CLI::App& app, CommandAction& action);
void add_oom_command(CLI::App& app, CommandAction& action);
void add_bench_command(CLI::App& app, CommandAction& action);
void add_calibrate_command(CLI::App& app, CommandAction& action);
void add_convert_command(CLI::App& app, CommandAction& action);
void add_compare_command(CLI::App& app, CommandAction& action);
void add_diagnose_command(CLI::App& app, CommandAction& action);
void add_doctor_command(CLI::App& app, CommandAction& action);
void add_explain_config_command(CLI::App& app, CommandAction& action);
void add_export_command(CLI::App& app, CommandAction& action);
void add_import_bench_command(CLI::App& app, CommandAction& action);
void add_list_command(CLI::App& app, CommandAction& action);
void add_generate_command(CLI::App& app, CommandAction& action);
void add_goodput_command(CLI::App& app, CommandAction& action);
void add_history_command(CLI::App& app, CommandAction& action);
void add_schedule_command(CLI::App& app, CommandAction& action);
void add_simulate_command(CLI::App& app, CommandAction& action);
void add_size_command(CLI::App& app, CommandAction& action);
void add_search_command(CLI::App& app, CommandAction& action);
void add_ask_command(CLI::App& app, CommandAction& action);
void add_stragglers_command(CLI::App& app, CommandAction& action);
void add_topology_command(CLI::App& app, CommandAction& action);
void add_operator_command(CLI::App& app, CommandAction& action);
void add_validate_command(CLI::App& app, CommandAction& action);
/// `completion`, and the hidden command that its scripts ask.
void add_completion_commands(CLI::App& app, CommandAction& action);

}  // namespace plumbline
