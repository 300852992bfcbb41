// The process of one cell.
#include "bench/evaluate/cell_process.hpp"

#include <fmt/format.h>

#include <csignal>
#include <filesystem>

#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_folder.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_listing.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kLargestMeasurement = 64 << 20;

void tell(const CellRun& run, const std::string& unsaved) {
  if (run.on_unsaved && !unsaved.empty()) run.on_unsaved(unsaved);
}

void take_measurement(const std::string& path, const CellRun& run, Record& record) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    record.status = Status::failed;
    record.reason = "the ranks ended without an error but wrote no measurement";
    return;
  }
  try {
    const std::string text = read_text_file(path, kLargestMeasurement);
    RankMeasurement measured = parse_measurement(text, "measurement");
    record.measurement = std::move(measured.measurement);
    record.probed = measured.probed;
    const auto file = parse_json_object<OrderedJson>(text, "measurement");
    tell(run, OrderedJsonKeys(file, "measurement").string_or(kUnsavedKey, ""));
    record.status = Status::ok;
    record.reason.clear();
    if (record.prediction) record.error = compare(*record.prediction, *record.measurement, record.probed);
  } catch (const InputError& wrong) {
    record.status = Status::failed;
    record.reason = wrong.what();
  }
}

}  // namespace

std::pair<Status, std::string> meaning_of(const LaunchResult& result) {
  const auto said = [&] {
    if (result.complaint.empty()) return result.reason();
    return result.rank >= 0 ? fmt::format("rank {}: {}", result.rank, result.complaint) : result.complaint;
  };
  switch (result.ending) {
    case Ending::exited:
      if (result.exit_code == static_cast<int>(ExitCode::does_not_fit)) return {Status::oom, said()};
      if (result.exit_code == static_cast<int>(ExitCode::bad_input)) return {Status::invalid, said()};
      return {Status::failed, result.reason()};
    case Ending::signalled:
      // Not "oom": the sender of the signal is unknown, and a rank over its budget reports it itself.
      if (result.signal == SIGKILL) {
        return {Status::failed,
                result.reason() + " from outside: the system when short of memory, or a person"};
      }
      return {Status::failed, result.reason()};
    case Ending::timed_out:
      return {Status::timeout, result.reason()};
    case Ending::stopped:
      return {Status::failed, result.reason()};
  }
  return {Status::failed, result.reason()};
}

bool measure_cell(const RunConfig& config, const CellProgram& program, const CellRun& run, Record& record) {
  // And no more than this one: folders removed meanwhile must not come back.
  const OutputFolder folder = OutputFolder::make(run.folder);
  const std::string config_name = run.name + ".yaml";
  const std::string log_name = run.name + ".log";
  const std::string measurement_name = run.name + ".measurement";
  const std::string absolute = fs::absolute(run.folder).string();
  const std::string measurement_path = absolute + "/" + measurement_name;
  folder.write(config_name, to_yaml(config));
  folder.remove(measurement_name);
  folder.remove(log_name);

  LaunchSpec spec;
  spec.program = program.path;
  spec.arguments = program.command;
  spec.arguments.insert(spec.arguments.end(), {absolute + "/" + config_name, "--json"});
  spec.ranks = config.layout().world();
  if (!run.hosts.empty()) spec.hosts = hosts_for(run.hosts, spec.ranks);
  spec.timeout = {config.measure.timeout_s.value_or(run.timeout.value)};
  spec.timeout_per_step = !config.measure.timeout_s;
  spec.bind_ranks = config.machine.backend == Backend::cpu;
  spec.environment = {{kRecordOutVariable, measurement_path}};
  spec.on_tick = run.go_on;
  spec.tick = run.tick;
  spec.on_line = run.on_line;
  const LaunchResult result = launch(spec);
  if (result.ending == Ending::stopped) {
    folder.remove(config_name);
    folder.remove(measurement_name);
    return false;
  }
  record.measurement.reset();
  record.probed.reset();
  record.error.reset();
  if (result.ok()) {
    take_measurement(measurement_path, run, record);
  } else if (result.complaint.starts_with(absolute) &&
             result.complaint.find(": cannot be written") != std::string::npos) {
    throw OutputError(result.complaint);  // the cell is well, the disk is not
  } else {
    std::tie(record.status, record.reason) = meaning_of(result);
  }
  folder.remove(measurement_name);
  if (record.status == Status::ok) {
    folder.remove(config_name);
    return true;
  }
  try {
    folder.write(log_name, fmt::format("{}: {}\n--- standard output\n{}--- standard error\n{}--- mpirun\n{}",
                                       name_of(record.status), record.reason, result.standard_output,
                                       result.standard_error, result.mpirun_output));
  } catch (const Error& error) {
    tell(run, error.what());
  }
  return true;
}

}  // namespace plumbline
