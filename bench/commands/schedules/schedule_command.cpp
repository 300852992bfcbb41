// `plumbline schedule`: prints a schedule as text, CSV, JSON, picture or trace file, or compares several.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "analysis/simulate/simulator.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/schedules/schedule_compare.hpp"
#include "bench/commands/schedules/schedule_list.hpp"
#include "bench/commands/schedules/schedule_options.hpp"
#include "bench/show/report/terminal_timeline.hpp"
#include "bench/show/text/record_tables.hpp"
#include "bench/show/text/wrap.hpp"
#include "core/base/error.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "core/schedule_text/schedule_text.hpp"
#include "core/trace/perfetto_trace.hpp"
#include "core/trace/trace_files.hpp"
#include "core/validate/validate.hpp"

namespace plumbline {
namespace {

struct ScheduleOptions {
  ScheduleSource source;
  std::string format = "text";
  bool send_waits = false;
  std::vector<std::string> compare;
  bool list = false;
};

ComparisonFormat comparison_format(const std::string& format) {
  if (format == "text") return ComparisonFormat::text;
  if (format == "csv") return ComparisonFormat::csv;
  if (format == "json") return ComparisonFormat::json;
  throw InputError(
      fmt::format("schedule: found --compare with --format {}, expected text, csv or json", format));
}

/// Refuses binary output to a terminal, which could take it for commands.
void refuse_terminal(const std::string& format) {
  if (isatty(STDOUT_FILENO) == 0) return;
  throw InputError(fmt::format(
      "schedule: --format {}: found a terminal, expected a file or a pipe; add > FILE.pftrace", format));
}

int print_schedule(const ScheduleOptions& options) {
  if (options.list) {
    fmt::print("{}", schedule_list());
    return 0;
  }
  if (options.source.name_or_file.empty() && options.compare.empty()) {
    throw InputError(
        "schedule: found no NAME, expected a schedule (`plumbline schedule --list` names them) or a .csv or "
        ".json file with one");
  }
  if (!options.compare.empty()) {
    std::vector<std::string> names = options.compare;
    if (!options.source.name_or_file.empty()) names.insert(names.begin(), options.source.name_or_file);
    const ComparisonFormat format = comparison_format(options.format);
    const std::string text = compare_schedules(options.source, names, nullptr, format);
    fmt::print("{}", format == ComparisonFormat::text ? within_terminal(text) : text);
    return 0;
  }
  if (options.format == "perfetto") refuse_terminal(options.format);
  const Schedule schedule = options.source.load();
  validate(schedule);
  if (options.format == "text") {
    fmt::print("{}", to_text(schedule));
  } else if (options.format == "csv") {
    fmt::print("{}", to_csv(schedule, {options.send_waits}));
  } else if (options.format == "json") {
    fmt::print("{}", to_json(schedule));
  } else {
    const Schedule timed = options.source.load_to_simulate(options.source.name_or_file, nullptr);
    const Trace trace = simulate(timed, unit_costs(timed));
    std::string text;
    if (options.format == "timeline") {
      const TableStyle style = style_of_standard_output();
      text = terminal_timeline(timed, trace, {style.width, style.color, true});
    } else if (options.format == "svg") {
      text = to_svg(timed, trace, true);
    } else if (options.format == "trace") {
      text = to_trace_json(timed, trace);
    } else {
      text = to_perfetto(timed, {{"simulated", trace, nullptr}});
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  return 0;
}

}  // namespace

void add_schedule_command(CLI::App& app, CommandAction& action) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App* command = app.add_subcommand("schedule", "Print, draw or compare pipeline schedules");
  command->add_option("name", options->source.name_or_file, "Schedule name, or a .csv or .json file")
      ->type_name("NAME");
  command->add_flag("--list", options->list, "List all schedules");
  add_schedule_options(*command, options->source);
  command
      ->add_option("--format", options->format,
                   "Output format: text (actions per rank), PyTorch CSV, JSON, terminal timeline, SVG "
                   "picture, Chrome trace JSON or Perfetto protobuf")
      ->check(CLI::IsMember({"text", "csv", "json", "timeline", "svg", "trace", "perfetto"}))
      ->capture_default_str();
  command->add_flag("--send-waits", options->send_waits,
                    "WAIT_SEND cells in --format csv, as PyTorch has them");
  command->add_option("--compare", options->compare, "Schedules to compare with")
      ->delimiter(',')
      ->type_name("NAME,...");
  command->callback([&action, options] { action = [options] { return print_schedule(*options); }; });
}

}  // namespace plumbline
