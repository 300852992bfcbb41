// `plumbline schedule`: prints a schedule as text, CSV, JSON, picture or trace file, or compares several.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <string>

#include "analysis/simulate/simulator.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/schedules/schedule_compare.hpp"
#include "bench/commands/schedules/schedule_source.hpp"
#include "bench/report/terminal_timeline.hpp"
#include "bench/text/record_tables.hpp"
#include "core/base/error.hpp"
#include "core/schedule/schedule_traits.hpp"
#include "core/schedule_text/schedule_text.hpp"
#include "core/trace/perfetto_trace.hpp"
#include "core/trace/trace_files.hpp"
#include "core/validate/validate.hpp"
#include "schedules/make_schedule.hpp"

namespace plumbline {
namespace {

struct ScheduleOptions {
  ScheduleSource source;
  std::string format = "text";
  bool send_waits = false;
  std::vector<std::string> compare;
  bool list = false;
};

/// One line per schedule that is built in, from its traits.
std::string schedule_list() {
  const auto stages = [](const ScheduleTraits& traits) {
    switch (traits.placement) {
      case StagePlacement::one:
        return "1";
      case StagePlacement::round_robin:
        return "2, or --chunks";
      case StagePlacement::v_shape:
        return "2, in a V";
      case StagePlacement::two_copies:
        return "1 of each of 2 copies";
    }
    return "";
  };
  std::string text = fmt::format("{:<16} {:<22} {:<10} {}\n", "schedule", "stages of a rank", "backward", "");
  for (const std::string_view name : schedule_names()) {
    const ScheduleTraits traits = schedule_traits(name);
    std::vector<std::string> notes;
    if (traits.vocab != VocabPasses::none)
      notes.push_back(fmt::format("{} with the vocabulary split over the pipeline", traits.base));
    if (traits.teacher) notes.emplace_back("a teacher's forwards too (distillation)");
    if (traits.order != OrderFrom::sizes) notes.emplace_back("ordered by the times of its actions");
    if (traits.whole_groups) notes.emplace_back("micro-batches in groups, best whole");
    const std::string line = fmt::format("{:<16} {:<22} {:<10} {}", name, stages(traits),
                                         traits.split_backward ? "I and W" : "B", fmt::join(notes, "; "));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text + "B: a whole backward; I and W: gradients of the input and of the weights apart\n";
}

int print_schedule(const ScheduleOptions& options) {
  if (options.list) {
    fmt::print("{}", schedule_list());
    return 0;
  }
  if (options.source.name_or_file.empty()) {
    throw InputError(
        "schedule: found no NAME, expected a schedule (`plumbline schedule --list` names them) or a .csv or "
        ".json file with one");
  }
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
    const Schedule timed = options.source.load_to_simulate(options.source.name_or_file, nullptr);
    const Trace trace = simulate(timed, unit_costs(timed));
    std::string text;
    if (options.format == "timeline") {
      const TableStyle style = style_of_standard_output();
      text = terminal_timeline(timed, trace, {style.width, style.color, true});
    } else if (options.format == "svg") {
      text = to_svg(timed, trace);
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
  command->add_option("name", options->source.name_or_file, "A schedule, or a .csv or .json file with one")
      ->type_name("NAME");
  command->add_flag("--list", options->list, "Print the names of all schedules and what each does");
  options->source.add_options(*command);
  command
      ->add_option(
          "--format", options->format,
          "A line of actions per rank, PyTorch's CSV, JSON, drawn in the terminal, a picture, Chrome's trace "
          "JSON or Perfetto's protobuf")
      ->check(CLI::IsMember({"text", "csv", "json", "timeline", "svg", "trace", "perfetto"}))
      ->capture_default_str();
  command->add_flag("--send-waits", options->send_waits, "With --format csv: PyTorch's WAIT_SEND cells too");
  command->add_option("--compare", options->compare, "Compare with further schedules")
      ->delimiter(',')
      ->type_name("NAME,...");
  command->callback([&action, options] { action = [options] { return print_schedule(*options); }; });
}

}  // namespace plumbline
