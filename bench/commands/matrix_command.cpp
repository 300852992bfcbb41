// `plumbline matrix`: predicts and measures every cell of a matrix, resuming where an earlier run stopped.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/matrix/job_script.hpp"
#include "bench/matrix/matrix_cells.hpp"
#include "bench/matrix/matrix_source.hpp"
#include "bench/processes/hosts/chosen_hosts.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/show/logs/training_log.hpp"
#include "bench/show/text/record_tables.hpp"
#include "bench/show/text/wrap.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

struct MatrixCommand {
  ConfigOptions config;
  std::string out;
  bool predict_only = false;
  bool retry = false;
  int rounds = 1;
  bool share = false;
  LauncherOptions launcher;
  bool print_job = false;
  int jobs = 1;
  std::vector<std::string> job_options;
  bool json = false;
  bool quiet = false;
  std::string timelines = "auto";
  TrainingLogs logs{};
};

/// Submits the matrix to Slurm, or prints the job script.
int submit(const MatrixCommand& command, const std::vector<MatrixCell>& cells) {
  namespace fs = std::filesystem;
  JobScript job;
  job.program = self_path();
  job.arguments = command_line();
  job.folder = fs::absolute(results_folder(command.out, command.config.source)).lexically_normal().string();
  job.working_folder = fs::current_path().string();
  job.jobs = command.jobs;
  job.options = command.job_options;
  for (const MatrixCell& cell : cells) {
    if (cell.invalid.empty()) job.ranks = std::max(job.ranks, cell.config.layout().world());
  }
  if (command.print_job) {
    fmt::print("{}", job_script(job));
  } else {
    fmt::print("submitted as job {}; results come to {}\n", submit_job(job), job.folder);
  }
  return static_cast<int>(ExitCode::done);
}

int run_command(const MatrixCommand& command) {
  const bool slurm = command.launcher.launcher == "slurm";
  if (!slurm && (command.print_job || command.jobs > 1 || !command.job_options.empty())) {
    throw InputError(
        "--print-job, --jobs, --job-option: found without --launcher slurm, expected with it; add --launcher "
        "slurm");
  }
  if (slurm && !command.launcher.hostfile.empty()) {
    throw InputError(
        "--hostfile: found with --launcher slurm, expected one of both, as Slurm chooses the hosts; leave "
        "one out");
  }
  if (command.rounds > 1 && (command.share || command.jobs > 1)) {
    throw InputError(
        "--rounds: found with --share or --jobs, expected neither, as concurrent runners disturb each other; "
        "leave out --share and --jobs, or --rounds");
  }
  if (const char* launcher = already_launched_by(); launcher != nullptr && !slurm && !command.predict_only) {
    throw InputError(
        fmt::format("matrix: found several processes started by {}, expected one, which starts ranks itself; "
                    "start it once, or use --launcher slurm on the submit host",
                    launcher));
  }
  MatrixSource source(command.config.source, command.config.overrides());
  if (slurm) return submit(command, source.cells());
  const std::vector<Host> hosts = chosen_hosts(command.launcher, process_variables());
  require_first(hosts);
  const std::string folder = results_folder(command.out, command.config.source);
  check_can_write_logs(command.logs, true);
  std::exception_ptr unwritten;  // why a log is missing; the cells go on
  const auto write_log = [&](const Record& record) {
    try {
      write_cell_logs(command.logs, record);
    } catch (const Error&) {
      unwritten = std::current_exception();
    }
  };
  CellEstimates estimates;
  source.fit_machine(folder, !command.predict_only, estimates);
  const std::vector<MatrixCell> cells = source.cells();
  const CellsResult result = run_cells(
      cells,
      {folder, command.predict_only, command.retry, command.rounds, command.quiet, command.share, hosts,
       source.chosen(), keeps_timelines(command.timelines, command.predict_only, cells.size()), write_log},
      estimates);
  const std::vector<Record>& records = result.records;
  if (command.json) {
    write_json_array(stdout, records);
  } else {
    fmt::print("{}", within_terminal(fmt::format("{}\n{}\n", to_table(records, style_of_standard_output()),
                                                 to_line(summarize(records)))));
  }
  if (unwritten) std::rethrow_exception(unwritten);
  return static_cast<int>(ending_of(result, command.predict_only));
}

}  // namespace

void add_matrix_command(CLI::App& app, CommandAction& action) {
  CLI::App* command =
      app.add_subcommand("matrix", "Predict and measure every cell of a matrix; resumes by default");
  const auto options = std::make_shared<MatrixCommand>();
  add_config_options(*command, options->config, "MATRIX.yaml");
  command->add_option("--out", options->out, "Output folder (default: MATRIX-results)")->type_name("DIR");
  command->add_flag("--predict-only", options->predict_only, "Predict without measuring");
  command->add_flag("--retry", options->retry, "Repeat cells that ended neither ok nor oom");
  command
      ->add_option("--rounds", options->rounds, "Measurements of every cell, in an order shuffled per round")
      ->check(number_from(1, 1000))
      ->type_name("N");
  command
      ->add_option("--launcher", options->launcher.launcher,
                   "Launcher: local (this host), mpirun (hosts of --hostfile or of the Slurm job), slurm (a "
                   "submitted job)")
      ->check(CLI::IsMember({"local", "mpirun", "slurm"}));
  command
      ->add_option("--hostfile", options->launcher.hostfile,
                   "File of hosts for the ranks, one per line: NAME slots=N, this host first")
      ->type_name("FILE");
  command->add_flag("--share", options->share, "Share the folder with other runners of this matrix");
  command->add_option("--jobs", options->jobs, "Concurrent runners with --launcher slurm: a job array of N")
      ->check(number_from(1, 1000))
      ->type_name("N");
  command
      ->add_option("--job-option", options->job_options,
                   "Option for sbatch with --launcher slurm (--job-option=--time=1:00:00); may be repeated")
      ->type_name("OPTION");
  command->add_flag("--print-job", options->print_job,
                    "Print the job script of --launcher slurm without submitting");
  command
      ->add_option("--timelines", options->timelines,
                   "Timeline files, about 1 MB each: auto (up to 500 predicted cells), always, never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command
      ->add_option("--mllog", options->logs.mllog,
                   "Output folder with MLPerf's log lines, \":::MLLOG {...}\", a file ID.log per cell")
      ->type_name("DIR");
  command
      ->add_option("--tensorboard", options->logs.tensorboard,
                   "Output folder with scalars for TensorBoard: ID/measured and ID/predicted of each cell")
      ->type_name("DIR");
  command->add_flag("--json", options->json, "Print the records as a JSON array");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      options->quiet = is_quiet(app);
      return run_command(*options);
    };
  });
}

}  // namespace plumbline
