// `plumbline run`: measures one configuration on ranks of its own and compares it with the prediction.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>

#include "bench/commands/commands.hpp"
#include "bench/commands/config_options.hpp"
#include "bench/evaluate/budget_check.hpp"
#include "bench/evaluate/cell_duration.hpp"
#include "bench/evaluate/evaluation.hpp"
#include "bench/evaluate/host_memory_check.hpp"
#include "bench/evaluate/profile_trust.hpp"
#include "bench/evaluate/record_parts.hpp"
#include "bench/measure/machine/machine_facts.hpp"
#include "bench/measure/machine/version.hpp"
#include "bench/plan/keys_without_effect.hpp"
#include "bench/plan/plan.hpp"
#include "bench/processes/hosts/chosen_hosts.hpp"
#include "bench/processes/hosts/placement.hpp"
#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/launch_output.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "bench/processes/launch/task_launch.hpp"
#include "bench/run/cell_timelines.hpp"
#include "bench/run/recovery/recovering_run.hpp"
#include "bench/show/report/terminal_timeline.hpp"
#include "bench/show/report/timelines.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/text/record_tables.hpp"
#include "bench/show/views/recovery_report.hpp"
#include "bench/show/views/side_by_side.hpp"
#include "bench/training/checkpoints/checkpoint_start.hpp"
#include "bench/training/checkpoints/step_folder.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_listing.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLargestRecord = std::size_t{64} << 20;

struct RunCommand {
  ConfigOptions config;
  RunFiles files;
  LauncherOptions launcher;
  std::string failures;  // --inject-failures
  bool elastic = false;
  std::string recovery_costs;  // --recovery-costs
  bool json = false;
  bool timeline = false;
};

/// Handles the ranks' output: "step 2 of 5" advances the progress, everything else is shown.
class Listener {
 public:
  explicit Listener(bool quiet) : quiet_(quiet), progress_(1, 0, quiet ? nullptr : stderr) {}
  void hear(const OutputLine& line) {
    if (line.rank < 0 || !line.error_stream) return;
    if (line.text.starts_with(fmt::format("[rank {}] ", line.rank))) return;  // it ends, and is the reason
    if (const auto step = step_of(line)) {
      progress_.update(step->first, step->second, "steps");
    } else {
      tell(line.text);
    }
  }
  void tell(const std::string& line) {
    if (quiet_) {
      say(one_line(line) + "\n");
    } else {
      progress_.say(line);
    }
  }

 private:
  bool quiet_;
  Progress progress_;
};

/// The predicted and the measured timeline, one below the other.
std::string timeline_text(const Schedule& schedule, const CellTimelines& timelines) {
  std::vector<NamedTrace> traces;
  if (timelines.predicted) traces.push_back({"predicted", timelines.predicted->trace, nullptr});
  if (timelines.measured) traces.push_back({"measured", timelines.measured->trace, nullptr});
  const TableStyle style = style_of_standard_output();
  return terminal_timeline(schedule, traces, {style.width, style.color, false});
}

/// Checkpoint options of a run whose ranks are about to start; the folder belongs to it for as long as it
/// lives.
struct Checkpoints {
  training::CheckpointOptions options;
  std::optional<training::CheckpointLock> lock;
  std::optional<FailureSpec> failures;
  ReplicaSizes sizes{};
  std::optional<RecoveryCosts> costs;

  ~Checkpoints() {
    if (lock) training::remove_unfinished(options.folder);  // of ranks that were stopped
  }
};

/// Recovery costs measured in the run of a record.
RecoveryCosts costs_in(const std::string& file) {
  const Record record = parse_record(read_text_file(file, kLargestRecord), file);
  if (record.recovery) return record.recovery->costs;
  throw InputError(fmt::format(
      "--recovery-costs: {} has no key recovery; expected the record of a run with --inject-failures",
      printable(file, 400)));
}

void prepare(const RunCommand& command, const RunConfig& config, Checkpoints& checkpoints) {
  checkpoints.options = command.files.checkpoints;
  if (!command.failures.empty()) {
    checkpoints.failures = parse_failure_spec(command.failures);
    if (checkpoints.options.folder.empty())
      throw InputError(
          "--inject-failures: expected --checkpoint-dir, from which the run goes on after a failure");
    if (!command.recovery_costs.empty()) checkpoints.costs = costs_in(command.recovery_costs);
    if (command.elastic) {
      if (checkpoints.failures->replacement <= Seconds{}) {
        throw InputError(
            "--elastic: expected replacement=TIME in --inject-failures, for how long a lost rank is missing");
      }
      check_elastic(config);
    }
  }
  training::check_checkpoint_options(checkpoints.options, config);
  if (checkpoints.options.folder.empty()) return;
  training::make_checkpoint_folder(checkpoints.options.folder);
  checkpoints.lock.emplace(checkpoints.options.folder);
  for (const std::string& remark : training::prepare_checkpoints(checkpoints.options, config))
    say(fmt::format("note: {}\n", remark));
}

int launch_and_compare(const RunCommand& command, bool quiet) {
  const RunConfig config = command.config.load_with_notes();
  std::vector<Host> hosts = chosen_hosts(command.launcher, process_variables());
  if (!hosts.empty()) hosts = hosts_for(hosts, config.layout().world());
  require_first(hosts);
  Record record = start_record("run", config, Asked::measurement);
  if (record.status != Status::ok || !has_device(config, record)) throw InputError(record.reason);
  std::string note;
  const Schedule schedule = schedule_for(config);
  for (const std::string& remark : check_files(config)) fmt::print(stderr, "note: {}\n", remark);
  if (!command.files.trace.empty()) check_can_write(command.files.trace, "--trace");
  check_budget(config, schedule);
  check_host_memory(config, {hosts.empty() ? config.layout().world() : hosts.front().slots});
  Checkpoints checkpoints;
  prepare(command, config, checkpoints);
  const HardwareProfile hardware = hardware_of(config, note);
  const Prediction prediction = predict(config, schedule, hardware);
  record.prediction = report_of(prediction, config, schedule);
  record.prediction->step_interval = step_interval_of(config, schedule, hardware);
  record.prediction->lanes = lanes_of(config, schedule, hardware);
  if (!note.empty()) say(fmt::format("note: {}\n", note));
  for (const std::string& doubt : doubts_about(hardware, record.machine, std::time(nullptr), true))
    say(fmt::format("note: {}\n", doubt));
  for (const std::string& idle : keys_without_effect(config)) say(fmt::format("note: {}\n", idle));
  const bool widened = config.machine.backend == Backend::cpu && config.numerics.precision == DType::bf16 &&
                       !multiplies_bf16();
  if (widened) say(fmt::format("note: {}\n", kNoBf16Products));

  if (command.elastic) checkpoints.sizes = elastic_sizes(config, hardware);

  const Interrupts interrupts;
  const RunFolder scratch(RunFolderUse::files);
  RunFiles files = command.files;
  if (command.timeline) files.timelines = scratch.path() + "/timelines/run.json";
  CellProgram program;
  for (const auto& [option, file] :
       {std::pair("--trace", files.trace), std::pair("--timelines", files.timelines)}) {
    if (!file.empty()) {
      program.command.insert(program.command.end(), {option, std::filesystem::absolute(file).string()});
    }
  }
  CellDuration duration = duration_of(config, hardware, prediction);
  duration.rough = duration.rough || checkpoints.options.on();
  std::string unsaved;
  const auto measured = [&] {
    Listener listener(quiet);
    const CellRun run = {.folder = scratch.path(),
                         .name = "run",
                         .go_on = [] { return !Interrupts::requested(); },
                         .on_line = [&](const OutputLine& line) { listener.hear(line); },
                         .on_unsaved = [&](const std::string& why) { unsaved = why; },
                         .hosts = hosts,
                         .timeout = derived_timeout(duration)};
    if (checkpoints.failures) {
      const auto tell = [&](const std::string& line) { listener.tell(line); };
      return measure_with_failures(config, program, run, checkpoints.options, *checkpoints.failures,
                                   checkpoints.sizes, checkpoints.costs, tell, record);
    }
    for (std::string& argument : checkpoint_arguments(checkpoints.options))
      program.command.push_back(std::move(argument));
    return measure_cell(config, program, run, record);
  };
  if (!measured()) throw Error("stopped, nothing was measured");
  if (record.status == Status::invalid) throw InputError(record.reason);
  fmt::print("{}", command.json ? output_json(to_json(record), 2) + "\n" : side_by_side(record));
  if (!command.json && record.recovery) fmt::print("\n{}", recovery_text(*record.recovery));
  if (command.timeline && record.status == Status::ok && unsaved.empty()) {
    const auto timelines = load_timelines(scratch.path(), "run");
    fmt::print("\n{}", timelines ? timeline_text(schedule, *timelines)
                                 : fmt::format("no timeline: {} actions are more than the {} that are kept; "
                                               "--trace writes them all\n",
                                               count_actions(schedule), kMostTimelineActions));
  }
  if (record.status != Status::ok)
    say(fmt::format("plumbline: {}: {}\n", name_of(record.status), record.reason));
  if (!unsaved.empty()) throw Error(unsaved);
  return static_cast<int>(exit_code_of(record.status));
}

/// Ranks may find other files on other hosts.
RunConfig load_on_this_host(const RunCommand& command) {
  try {
    return command.config.load();
  } catch (const InputError& error) {
    throw InputError(fmt::format("on {}: {}", this_host(), error.what()));
  }
}

/// One task of torchrun, or of srun without PMIx: mpirun starts the ranks for all of them.
int run_as_task(const RunCommand& command, const Placement& placement) {
  const RunConfig config = load_on_this_host(command);
  if (const auto reason = why_invalid(config)) throw InputError(*reason);
  if (config.layout().world() != placement.size) {
    throw InputError(fmt::format(
        "world_size: found {0} ranks and {2} tasks of {1}, expected equal numbers; start one task per rank",
        config.layout().world(), name_of(placement.launcher), placement.size));
  }
  // By every task, so that all end with the same line; ranks start when all have come.
  const int first = placement.rank - std::max(placement.local_rank, 0);
  check_host_memory(config, {std::max(placement.local_size, 1), first});
  TaskLaunch launch;
  launch.placement = placement;
  launch.version = plumbline_version();
  launch.work = to_yaml(config);
  launch.spec.program = self_path();
  launch.spec.arguments = command_line();
  launch.spec.ranks = placement.size;
  launch.spec.bind_ranks = config.machine.backend == Backend::cpu;
  if (placement.rank > 0) return launch_from_tasks(launch);
  std::string ignored;
  const HardwareProfile hardware = hardware_of(config, ignored);
  const Seconds derived = derived_timeout(duration_of(config, hardware, predict_config(config, hardware)));
  launch.spec.timeout = {config.measure.timeout_s.value_or(derived.value)};
  launch.spec.timeout_per_step = !config.measure.timeout_s;
  for (const std::string& remark : check_files(config)) say(fmt::format("note: {}\n", remark));
  // Through a file: mpirun breaks the lines that ranks print.
  const RunFolder scratch(RunFolderUse::files);
  const std::string path = scratch.path() + "/measurement";
  launch.spec.environment = {{kRecordOutVariable, path}};
  const int code = launch_from_tasks(launch);
  auto measured = parse_json_object<OrderedJson>(read_text_file(path, kLargestRecord), "measurement");
  const std::string unsaved = measured.value(kUnsavedKey, "");
  measured.erase(kUnsavedKey);
  fmt::print("{}\n", output_json(measured, 2));
  if (!unsaved.empty()) throw Error(unsaved);
  return code;
}

constexpr int kMostKept = 1000;
constexpr int kLongestInterval = 1 << 20;

void add_recovery_options(CLI::App& command, RunCommand& options) {
  training::CheckpointOptions& checkpoints = options.files.checkpoints;
  command
      .add_option("--checkpoint-dir", checkpoints.folder,
                  "Folder for training checkpoints: weights, optimizer, step; one after the last step")
      ->type_name("DIR");
  command.add_option("--checkpoint-interval", checkpoints.interval, "Steps between checkpoints")
      ->type_name("K")
      ->check(CLI::Range(1, kLongestInterval));
  command
      .add_option("--keep-checkpoints", checkpoints.keep,
                  "Checkpoints to keep; older ones are removed once a newer one is verified")
      ->type_name("N")
      ->check(CLI::Range(1, kMostKept))
      ->capture_default_str();
  command.add_flag("--async-save", checkpoints.async,
                   "Write checkpoints asynchronously, alongside the next steps");
  command.add_flag("--resume", checkpoints.resume_newest,
                   "Resume from the newest complete checkpoint of --checkpoint-dir, with any parallel sizes");
  command
      .add_option(
          "--inject-failures", options.failures,
          "Inject random failures and restart from the newest checkpoint: mtbf=30s[,kinds=kill,hang,disk]"
          "[,seed=1][,most=N][,replacement=TIME][,hang_timeout=10s]")
      ->type_name("SPEC");
  command
      .add_flag("--elastic", options.elastic,
                "Continue with the other data-parallel replicas until a lost rank is replaced")
      ->needs("--inject-failures");
  command
      .add_option("--recovery-costs", options.recovery_costs,
                  "Record whose costs of steps, checkpoints and failures predict the goodput beforehand")
      ->type_name("RECORD")
      ->needs("--inject-failures");
  // Options that this command passes to its ranks.
  command.add_option("--resume-from", checkpoints.resume)->group("");
  command.add_flag("--checkpoints-prepared", checkpoints.prepared)->group("");
}

}  // namespace

void add_run_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand(
      "run", "Measure one configuration and compare with its prediction; starts mpirun itself");
  const auto options = std::make_shared<RunCommand>();
  add_config_options(*command, options->config);
  auto* json = command->add_flag("--json", options->json, "Print the record as JSON");
  command->add_flag("--timeline", options->timeline, "Draw the timelines, predicted above measured")
      ->excludes(json);
  command
      ->add_option("--trace", options->files.trace,
                   "Output file with both timelines and memory for ui.perfetto.dev: Perfetto protobuf if "
                   "FILE ends in .pftrace, else Chrome JSON")
      ->type_name("FILE");
  command
      ->add_option("--launcher", options->launcher.launcher,
                   "Launcher: local (this host) or mpirun (hosts of --hostfile or of the Slurm job)")
      ->check(CLI::IsMember({"local", "mpirun"}));
  command
      ->add_option("--hostfile", options->launcher.hostfile,
                   "File of hosts for the ranks, one per line: NAME slots=N, this host first")
      ->type_name("FILE");
  add_recovery_options(*command, *options);
  // Option that `matrix` passes to its ranks.
  command->add_option("--timelines", options->files.timelines)->group("");
  command->callback([=, &app, &action] {
    action = [=, &app] {
      const Placement placement = find_placement(process_variables());
      if (!placement.one_of_several()) return launch_and_compare(*options, is_quiet(app));
      if (options->timeline) {
        throw InputError(
            "--timeline: found a process that is a rank already, expected one without a launcher; start "
            "`plumbline run` without mpirun, or use --trace");
      }
      if (!placement.speaks_mpi()) return run_as_task(*options, placement);
      int argc = 0;
      char** argv = nullptr;
      return run_as_rank(load_on_this_host(*options), options->files, argc, argv);
    };
  });
}

}  // namespace plumbline
