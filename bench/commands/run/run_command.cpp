// `plumbline run`: measures one configuration on ranks of its own and compares it with the prediction.
#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>

#include "bench/commands/run/run_options.hpp"
#include "bench/evaluate/budget_check.hpp"
#include "bench/evaluate/cell_duration.hpp"
#include "bench/evaluate/host_memory_check.hpp"
#include "bench/evaluate/profile_trust.hpp"
#include "bench/evaluate/record_parts.hpp"
#include "bench/measure/machine/machine_facts.hpp"
#include "bench/plan/keys_without_effect.hpp"
#include "bench/plan/plan.hpp"
#include "bench/processes/hosts/host_list.hpp"
#include "bench/processes/hosts/placement.hpp"
#include "bench/processes/hosts/variables.hpp"
#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/launch_output.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "bench/run/cell_timelines.hpp"
#include "bench/show/report/terminal_timeline.hpp"
#include "bench/show/report/timelines.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/text/record_tables.hpp"
#include "bench/show/views/recovery_report.hpp"
#include "bench/show/views/side_by_side.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

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

/// Throws InputError for a picture that cannot be written, or of a step whose timelines are not kept.
void check_svg(const RunCommand& command, const Schedule& schedule) {
  if (command.svg.empty()) return;
  check_can_write(command.svg, "--svg");
  if (const std::size_t actions = count_actions(schedule); actions > kMostTimelineActions) {
    throw InputError(
        fmt::format("--svg: found a step of {} actions, expected at most {}, whose timelines are kept; use "
                    "fewer micro-batches (global_batch_size), or --trace",
                    actions, kMostTimelineActions));
  }
}

/// The predicted and the measured timeline, in this order.
std::vector<NamedTrace> traces_of(const CellTimelines& timelines) {
  std::vector<NamedTrace> traces;
  if (timelines.predicted) traces.push_back({"predicted", timelines.predicted->trace, nullptr});
  if (timelines.measured) traces.push_back({"measured", timelines.measured->trace, nullptr});
  return traces;
}

/// The timelines, one below the other.
std::string timeline_text(const Schedule& schedule, const CellTimelines& timelines) {
  const TableStyle style = style_of_standard_output();
  return terminal_timeline(schedule, traces_of(timelines), {style.width, style.color, false});
}

/// Draws the timelines of a run that has ended well, from the folder that its ranks wrote them to.
void draw_timelines(const RunCommand& command, const Schedule& schedule, const std::string& folder) {
  if (!command.timeline && command.svg.empty()) return;
  const auto timelines = load_timelines(folder, "run");
  if (timelines && !command.svg.empty())
    write_whole_file(command.svg, to_svg(schedule, traces_of(*timelines)));
  if (!command.timeline) return;
  fmt::print("\n{}", timelines ? timeline_text(schedule, *timelines)
                               : fmt::format("no timeline: {} actions are more than the {} that are kept; "
                                             "--trace writes them all\n",
                                             count_actions(schedule), kMostTimelineActions));
}

int launch_and_compare(const RunCommand& command, bool quiet) {
  const RunConfig config = command.config.load_with_notes();
  std::vector<Host> hosts = chosen_hosts(command.launcher, process_variables());
  if (!hosts.empty()) hosts = hosts_for(hosts, config.layout().world());
  require_first(hosts);
  const int ranks_here = hosts.empty() ? config.layout().world() : hosts.front().slots;
  Record record = start_record("run", config, Asked::measurement);
  if (record.status != Status::ok || !has_device(config, ranks_here, record)) throw InputError(record.reason);
  std::string note;
  const Schedule schedule = schedule_for(config);
  for (const std::string& remark : check_files(config)) fmt::print(stderr, "note: {}\n", remark);
  if (!command.files.trace.empty()) check_can_write(command.files.trace, "--trace");
  check_can_write_logs(command.logs, false);
  check_svg(command, schedule);
  check_budget(config, schedule);
  check_host_memory(config, {ranks_here});
  Checkpoints checkpoints;
  prepare(command, config, checkpoints);
  const HardwareProfile hardware = hardware_of(config, note);
  const Prediction prediction = predict(config, schedule, hardware);
  record.prediction = whole_report(prediction, config, schedule, hardware);
  if (!note.empty()) say(fmt::format("note: {}\n", note));
  for (const std::string& doubt : doubts_about(hardware, record.machine, std::time(nullptr), true))
    say(fmt::format("note: {}\n", doubt));
  for (const std::string& idle : keys_without_effect(config)) say(fmt::format("note: {}\n", idle));
  if (config.machine.backend == Backend::cpu && config.numerics.precision == DType::fp16)
    say(fmt::format("note: {}\n", kFp16Products));
  const bool widened = config.machine.backend == Backend::cpu && config.numerics.precision == DType::bf16 &&
                       !multiplies_bf16();
  if (widened) say(fmt::format("note: {}\n", kNoBf16Products));

  if (command.elastic) checkpoints.sizes = elastic_sizes(config, hardware);

  const Interrupts interrupts;
  const RunFolder scratch(RunFolderUse::files);
  RunFiles files = command.files;
  if (command.timeline || !command.svg.empty()) files.timelines = scratch.path() + "/timelines/run.json";
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
  if (record.status == Status::ok && unsaved.empty()) draw_timelines(command, schedule, scratch.path());
  write_logs(command.logs, record);  // last: a full disk costs the logs only
  if (record.status != Status::ok)
    say(fmt::format("plumbline: {}: {}\n", name_of(record.status), record.reason));
  if (!unsaved.empty()) throw Error(unsaved);
  return static_cast<int>(exit_code_of(record.status));
}

/// The configuration of a rank. Throws InputError naming this host: others may have other files.
RunConfig load_on_this_host(const RunCommand& command) {
  try {
    return command.config.load();
  } catch (const InputError& error) {
    throw InputError(fmt::format("on {}: {}", this_host(), error.what()));
  }
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
  command->add_option("--svg", options->svg, "Output file for a picture of both timelines")
      ->type_name("FILE.svg");
  command
      ->add_option("--trace", options->files.trace,
                   "Output file with both timelines and memory for ui.perfetto.dev: Perfetto protobuf if "
                   "FILE ends in .pftrace, else Chrome JSON")
      ->type_name("FILE");
  command
      ->add_option("--mllog", options->logs.mllog, "Output file with MLPerf's log lines, \":::MLLOG {...}\"")
      ->type_name("FILE");
  command
      ->add_option("--tensorboard", options->logs.tensorboard,
                   "Output folder with scalars for TensorBoard, measured and predicted")
      ->type_name("DIR");
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
      require_mpi(placement);
      if (!placement.one_of_several()) {
        return options->config.load().reinforces() ? launch_reinforcement(*options, is_quiet(app))
                                                   : launch_and_compare(*options, is_quiet(app));
      }
      if (options->logs.any()) {
        throw InputError(
            "--mllog, --tensorboard: found a process that is a rank already, expected one without a "
            "launcher; start `plumbline run` without mpirun");
      }
      if (options->timeline || !options->svg.empty()) {
        throw InputError(
            fmt::format("{}: found a process that is a rank already, expected one without a launcher; start "
                        "`plumbline run` without mpirun, or use --trace",
                        options->timeline ? "--timeline" : "--svg"));
      }
      int argc = 0;
      char** argv = nullptr;
      const RunConfig config = load_on_this_host(*options);
      if (config.reinforces()) return reinforce_as_rank(*options, config);
      return run_as_rank(config, options->files, argc, argv);
    };
  });
}

}  // namespace plumbline
