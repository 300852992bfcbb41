// `plumbline simulate`: time of a schedule under given costs.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "analysis/simulate/costs_json.hpp"
#include "analysis/simulate/critical_path.hpp"
#include "analysis/simulate/simulation_report.hpp"
#include "analysis/simulate/simulator.hpp"
#include "bench/ask/simulation_json.hpp"
#include "bench/commands/commands.hpp"
#include "bench/commands/schedules/schedule_compare.hpp"
#include "bench/commands/schedules/schedule_options.hpp"
#include "bench/show/report/terminal_timeline.hpp"
#include "bench/show/report/trace_output.hpp"
#include "bench/show/text/record_tables.hpp"
#include "bench/show/text/still_working.hpp"
#include "bench/show/text/wrap.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "core/base/output_json.hpp"
#include "core/base/text_input.hpp"
#include "core/validate/validate.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMaxCostsBytes = std::size_t{1} << 25;
constexpr std::size_t kShownShares = 8;

struct SimulateOptions {
  ScheduleSource source;
  std::string file;
  std::string name;
  std::string costs;
  std::string svg;
  std::string trace;
  bool json = false;
  bool quiet = false;
  bool timeline = false;
  std::vector<std::string> compare;
};

std::string collectives_text(const VocabularyOverlap& overlap) {
  std::string text = fmt::format("\n{:<24} {:>10} {:>12} {:>12} {:>26}\n", "per rank and step", "total us",
                                 "exposed us", "waiting us", "overlap in steady state");
  for (const VocabularyCall call : kAllVocabularyCalls) {
    const CollectiveOverlap& each = overlap[static_cast<std::size_t>(call)];
    text +=
        fmt::format("{:<24} {:>10.1f} {:>12.1f} {:>12.1f} {:>26}\n", name_of(call), each.time.value * 1e6,
                    each.exposed.value * 1e6, each.waited.value * 1e6,
                    std::isfinite(each.overlapped) ? fmt::format("{:.1f} %", 100 * each.overlapped) : "-");
  }
  return text;
}

std::string text_of(const Schedule& schedule, const SimulationReport& report, const CriticalPath& path) {
  std::string text = fmt::format(
      "{}: {} ranks, {} stages, {} micro-batches\nstep time {:.1f} us, bubble ratio {:.4f}, bubble fraction "
      "{:.4f} ({:.4f} without a barrier), peak {:.4g} micro-batches in flight on rank {}\n\n{:>5} {:>14} "
      "{:>14} {:>10}\n",
      schedule.name, schedule.ranks, schedule.stages, schedule.microbatches, report.makespan.value * 1e6,
      report.bubble.ratio, report.bubble.fraction, report.free_running_bubble, report.peak_in_flight,
      report.peak_rank, "rank", "busy us", "idle us", "in flight");
  for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
    text += fmt::format("{:>5} {:>14.1f} {:>14.1f} {:>10.4g}\n", rank, report.ranks[rank].busy.value * 1e6,
                        report.ranks[rank].idle.value * 1e6, report.ranks[rank].peak_in_flight);
  }
  if (report.vocabulary_passes) text += collectives_text(report.vocabulary);
  text += fmt::format(
      "\ncritical path: transfers {:.1f} us; step time saved by free transfers {:.1f} us, by equal stages "
      "{:.1f} us (slowest: stage {})\n",
      path.transfers.value * 1e6, path.on_transfers.value * 1e6, path.on_imbalance.value * 1e6,
      path.slowest_stage);
  for (std::size_t i = 0; i < std::min(kShownShares, path.shares.size()); ++i) {
    const CriticalPath::Share& share = path.shares[i];
    text += fmt::format("  {:>6.2f} %  {} ({} times)\n", 100 * (share.time / path.makespan), share.what,
                        share.count);
  }
  return text;
}

int simulate_schedule(SimulateOptions options) {
  if (options.file.empty() == options.name.empty()) {
    throw InputError(
        "simulate: expected either a schedule file or --schedule NAME with --pp and --microbatches");
  }
  options.source.name_or_file = options.file.empty() ? options.name : options.file;
  const std::string text = read_text_file(options.costs, kMaxCostsBytes);
  if (!options.compare.empty()) {
    std::vector<std::string> names = {options.source.name_or_file};
    names.insert(names.end(), options.compare.begin(), options.compare.end());
    const std::string compared = compare_schedules(
        options.source, names, &text, options.json ? ComparisonFormat::json : ComparisonFormat::text);
    fmt::print("{}", options.json ? compared : within_terminal(compared));
    return 0;
  }
  StillWorking working("building the schedule", options.quiet ? nullptr : stderr);
  options.source.check_limits();
  Schedule schedule = options.source.load_to_simulate(options.source.name_or_file, nullptr);
  const Costs costs = parse_costs_json(text, options.costs, schedule);
  schedule = options.source.load_to_simulate(options.source.name_or_file, &costs);
  validate(schedule);
  working.now("simulating the schedule");
  const Trace trace = simulate(schedule, costs);
  const SimulationReport report = report_of(schedule, costs, trace);
  const CriticalPath path = critical_path(schedule, costs);
  if (!options.svg.empty()) write_whole_file(options.svg, to_svg(schedule, trace));
  if (!options.trace.empty()) {
    write_whole_file(options.trace, trace_file(options.trace, schedule, {{"simulated", trace, nullptr}}));
  }
  fmt::print("{}", options.json ? output_json(simulation_json(report, path), 2) + "\n"
                                : text_of(schedule, report, path));
  if (options.timeline) {
    const TableStyle style = style_of_standard_output();
    fmt::print("\n{}", terminal_timeline(schedule, trace, {style.width, style.color, false}));
  }
  return 0;
}

}  // namespace

void add_simulate_command(CLI::App& app, CommandAction& action) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* command = app.add_subcommand("simulate", "Simulate a pipeline schedule with given action times");
  command->add_option("file", options->file, "Schedule file, .csv or .json")->type_name("FILE");
  command->add_option("--schedule", options->name, "Schedule name, in place of a file")->type_name("NAME");
  add_schedule_options(*command, options->source);
  command->add_option("--costs", options->costs, "Action times")->required()->type_name("COSTS.json");
  auto* svg = command->add_option("--svg", options->svg, "Output file for a picture")->type_name("FILE.svg");
  auto* trace = command
                    ->add_option("--trace", options->trace,
                                 "Output file with a trace for ui.perfetto.dev: Perfetto protobuf if FILE "
                                 "ends in .pftrace, else Chrome JSON")
                    ->type_name("FILE");
  auto* json = command->add_flag("--json", options->json, "Print JSON");
  auto* timeline = command->add_flag("--timeline", options->timeline, "Draw the timeline")->excludes(json);
  command->add_option("--compare", options->compare, "Schedules to compare with")
      ->delimiter(',')
      ->type_name("NAME,...")
      ->excludes(svg)
      ->excludes(trace)
      ->excludes(timeline);
  command->callback([&app, &action, options] {
    options->quiet = is_quiet(app);
    action = [options] { return simulate_schedule(*options); };
  });
}

}  // namespace plumbline
