// `plumbline run` as one of the tasks that another launcher started.
#include <fmt/format.h>

#include <algorithm>

#include "bench/commands/run/run_options.hpp"
#include "bench/evaluate/cell_duration.hpp"
#include "bench/evaluate/host_memory_check.hpp"
#include "bench/measure/machine/version.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "bench/processes/launch/task_launch.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_listing.hpp"

namespace plumbline {

RunConfig load_on_this_host(const RunCommand& command) {
  try {
    return command.config.load();
  } catch (const InputError& error) {
    throw InputError(fmt::format("on {}: {}", this_host(), error.what()));
  }
}

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

}  // namespace plumbline
