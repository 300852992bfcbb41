// `plumbline import-bench`: logs of network benchmarks become a profile for predictions.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/logs/network_fit.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/number_range.hpp"
#include "bench/measure/machine/accelerator_name.hpp"
#include "bench/measure/machine/named_hardware.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

struct ImportOptions {
  std::vector<std::string> files;
  std::string hardware;
  std::string collective;
  int ranks = 0, nodes = 0;
  std::string name;
  std::string out;
  bool json = false;
};

/// Sweeps of all files, in their order, with the facts that the user adds.
std::vector<LogSweep> sweeps_of(const ImportOptions& options) {
  const LogOperation operation =
      options.collective.empty() ? LogOperation::unknown : log_operation_named(options.collective);
  std::vector<LogSweep> sweeps;
  for (const std::string& file : options.files) {
    for (LogSweep& sweep : read_benchmark_log(read_text_file(file, kMostLogBytes), file)) {
      complete(sweep, operation, options.ranks, options.nodes, file);
      sweeps.push_back(std::move(sweep));
    }
  }
  return sweeps;
}

/// --hardware, else the accelerator that the logs name.
std::string hardware_name(const ImportOptions& options, const std::vector<LogSweep>& sweeps) {
  std::string name = options.hardware;
  if (!name.empty()) {
    name_hardware(name);
    return name;
  }
  for (const LogSweep& sweep : sweeps) {
    name = sweep.device.empty() ? "" : accelerator_of(sweep.device, {0});
    if (name.empty()) continue;
    say(fmt::format("note: hardware: taken as {}, by the device \"{}\" of the log\n", name, sweep.device));
    return name;
  }
  throw InputError(
      "--hardware: found nothing, and no known device in the logs, expected the accelerator or profile that "
      "the network belongs to; add it");
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f}", 100 * *share) : "-";
}

std::string table_of(const NetworkFit& fit) {
  std::string text =
      fmt::format("{:<11} {:<15} {:>6} {:>6} {:>6} {:>13} {:>14} {:>12} {:>11}\n", "log", "collective",
                  "ranks", "hosts", "sizes", "latency (us)", "busbw (GB/s)", "before (%)", "after (%)");
  for (const FittedSweep& each : fit.sweeps) {
    text += fmt::format("{:<11} {:<15} {:>6} {:>6} {:>6} {:>13} {:>14} {:>12} {:>11}\n", each.sweep.tool,
                        name_of(each.sweep.operation), each.sweep.ranks, each.sweep.nodes,
                        each.sweep.points.size(),
                        each.latency_s ? fmt::format("{:.2f}", *each.latency_s * 1e6) : "-",
                        each.bus_bandwidth ? fmt::format("{:.2f}", *each.bus_bandwidth / 1e9) : "-",
                        percent(each.error_before), percent(each.error_after));
  }
  text +=
      "before, after: error of predicted times from 1 MiB on, with the constants of --hardware and with "
      "these:\n";
  for (const FittedConstant& constant : fit.constants) {
    text += fmt::format("  {:<18} {:.4g}\n", constant.name, constant.value);
  }
  return text;
}

OrderedJson json_of(const NetworkFit& fit, const std::string& like) {
  OrderedJson json = {{"hardware", like}, {"sweeps", OrderedJson::array()}};
  const auto number = [](const std::optional<double>& value) {
    return value ? OrderedJson(*value) : OrderedJson(nullptr);
  };
  for (const FittedSweep& each : fit.sweeps) {
    OrderedJson sweep = {{"tool", each.sweep.tool},
                         {"collective", name_of(each.sweep.operation)},
                         {"ranks", each.sweep.ranks},
                         {"hosts", each.sweep.nodes},
                         {"device", each.sweep.device},
                         {"latency_s", number(each.latency_s)},
                         {"bus_bandwidth", number(each.bus_bandwidth)},
                         {"error_before", number(each.error_before)},
                         {"error_after", number(each.error_after)}};
    for (const LogPoint& point : each.sweep.points) {
      sweep["bytes"].push_back(point.bytes);
      sweep["seconds"].push_back(point.seconds);
    }
    json["sweeps"].push_back(std::move(sweep));
  }
  json["constants"] = OrderedJson::object();
  for (const FittedConstant& constant : fit.constants) json["constants"][constant.name] = constant.value;
  return json;
}

int import_bench(const ImportOptions& options) {
  const std::vector<LogSweep> sweeps = sweeps_of(options);
  const std::string like = hardware_name(options, sweeps);
  const HardwareProfile hardware = load_hardware(like);
  if (!options.out.empty()) check_can_write(options.out, "import-bench: --out");
  if (hardware.accelerator() == nullptr) {
    const HardwareProfile profile = with_measured_messages(hardware, sweeps);
    if (options.out.empty()) {
      fmt::print("{}", to_json(profile));
    } else {
      write_whole_file(options.out, to_json(profile));
    }
    return static_cast<int>(ExitCode::done);
  }
  const NetworkFit fit = fit_network(hardware.accelerator()->constants.network, sweeps);
  if (fit.constants.empty()) {
    throw InputError(
        "import-bench: found sizes from which no constant follows, expected some up to 8 KiB or "
        "from 1 MiB on; measure more sizes");
  }
  if (!options.out.empty()) {
    const std::string name = options.name.empty() ? like + ", imported network" : options.name;
    write_whole_file(options.out, accelerator_file_of(fit, printable(name, 100), like));
  }
  fmt::print("{}", options.json ? output_json(json_of(fit, like), 2) + "\n" : table_of(fit));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_import_bench_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand(
      "import-bench", "Turn outputs of nccl-tests, rccl-tests, OSU or ib_write_bw into a hardware profile");
  const auto options = std::make_shared<ImportOptions>();
  command->add_option("FILE", options->files, "Outputs of benchmarks")->required()->type_name("FILE...");
  command
      ->add_option(
          "--hardware", options->hardware,
          "Accelerator or calibrated profile that the network belongs to (default: by the log's device)")
      ->type_name("NAME|FILE");
  command->add_option("--collective", options->collective, "Collective of logs that do not name it");
  command->add_option("--ranks", options->ranks, "Ranks of logs that do not name them")
      ->check(number_from(2, 1 << 20))
      ->type_name("N");
  command->add_option("--nodes", options->nodes, "Hosts of logs that do not name them")
      ->check(number_from(1, 1 << 20))
      ->type_name("N");
  command->add_option("--name", options->name, "Name of the profile");
  command->add_option("--out", options->out, "Output profile, for --hardware of other commands")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print sweeps and constants as JSON");
  command->callback([=, &action] { action = [=] { return import_bench(*options); }; });
}

}  // namespace plumbline
