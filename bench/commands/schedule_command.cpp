// `plumbline schedule`: prints a schedule as text, CSV, JSON, picture or trace file, or compares several.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>

#include "analysis/simulate/simulator.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/schedule_compare.hpp"
#include "bench/commands/schedule_source.hpp"
#include "bench/report/terminal_timeline.hpp"
#include "bench/text/record_tables.hpp"
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
};

int print_schedule(const ScheduleOptions& options) {
  if (!options.compare.empty()) {
    std::vector<std::string> names = {options.source.name_or_file};
    names.insert(names.end(), options.compare.begin(), options.compare.end());
    fmt::print("{}", compare_schedules(options.source, names, nullptr));
    return 0;
  }
  const Schedule schedule = options.source.load();
  validate(schedule);
  if (options.format == "text") {
    fmt::print("{}", to_text(schedule));
  } else if (options.format == "csv") {
    fmt::print("{}", to_csv(schedule, {options.send_waits}));
  } else if (options.format == "json") {
    fmt::print("{}", to_json(schedule));
  } else {
    const Trace trace = simulate(schedule, unit_costs(schedule));
    std::string text;
    if (options.format == "timeline") {
      const TableStyle style = style_of_standard_output();
      text = terminal_timeline(schedule, trace, {style.width, style.color, true});
    } else if (options.format == "svg") {
      text = to_svg(schedule, trace);
    } else if (options.format == "trace") {
      text = to_trace_json(schedule, trace);
    } else {
      text = to_perfetto(schedule, {{"simulated", trace, nullptr}});
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  return 0;
}

}  // namespace

void add_schedule_command(CLI::App& app, CommandAction& action) {
  auto options = std::make_shared<ScheduleOptions>();
  CLI::App* command = app.add_subcommand("schedule", "Print, draw or compare pipeline schedules");
  command->add_option("name", options->source.name_or_file, "A schedule, or a .csv or .json file with one")
      ->required()
      ->type_name("NAME");
  options->source.add_options(*command);
  command
      ->add_option(
          "--format", options->format,
          "A line of actions per rank, PyTorch's CSV, JSON, drawn in the terminal, a picture, Chrome's trace "
          "JSON or Perfetto's protobuf")
      ->check(CLI::IsMember({"text", "csv", "json", "timeline", "svg", "trace", "perfetto"}));
  command->add_flag("--send-waits", options->send_waits, "With --format csv: PyTorch's WAIT_SEND cells too");
  command->add_option("--compare", options->compare, "Compare with further schedules")
      ->delimiter(',')
      ->type_name("NAME,...");
  command->callback([&action, options] { action = [options] { return print_schedule(*options); }; });
}

}  // namespace plumbline
