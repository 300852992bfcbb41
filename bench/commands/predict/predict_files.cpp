#include "bench/commands/predict/predict_files.hpp"

#include <fmt/format.h>

#include "bench/run/cell_timelines.hpp"
#include "bench/show/report/terminal_timeline.hpp"
#include "bench/show/report/trace_output.hpp"
#include "bench/show/text/record_tables.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Viewers open no larger trace.
constexpr std::int64_t kMostDrawnActions = 1'000'000;

}  // namespace

void add_timeline_options(CLI::App& command, PredictFiles& files, CLI::Option* json) {
  command.add_flag("--timeline", files.timeline, "Draw the timeline of the predicted step")->excludes(json);
  command.add_option("--svg", files.svg, "Output file for a picture of the timeline")->type_name("FILE.svg");
  command
      .add_option("--trace", files.trace,
                  "Output file with timeline and memory for ui.perfetto.dev: Perfetto protobuf if FILE ends "
                  "in .pftrace, else Chrome JSON")
      ->type_name("FILE");
}

void check_places(const PredictFiles& files) {
  if (!files.svg.empty()) check_can_write(files.svg, "--svg");
  if (!files.trace.empty()) check_can_write(files.trace, "--trace");
}

std::string draw(const PredictFiles& files, const RunConfig& config, const RepeatedSchedule& step,
                 const Prediction& prediction, const HardwareProfile& hardware) {
  if (!files.timeline && files.svg.empty() && files.trace.empty()) return "";
  const std::int64_t actions = count_of(count_by_stage(step));
  if (actions > kMostDrawnActions) {
    throw InputError(fmt::format(
        "{}: found a step of {} actions, expected at most {}; use fewer micro-batches (global_batch_size)",
        files.timeline       ? "--timeline"
        : !files.svg.empty() ? "--svg"
                             : "--trace",
        actions, kMostDrawnActions));
  }
  const Schedule schedule = with_copies(step, step.copies);
  const Timeline timeline = predicted_timeline(config, schedule, prediction, hardware);
  if (!files.svg.empty()) write_whole_file(files.svg, to_svg(schedule, timeline.trace));
  if (!files.trace.empty()) {
    write_whole_file(files.trace,
                     trace_file(files.trace, schedule,
                                {{"predicted", timeline.trace, &timeline.memory, &timeline.lanes}}));
  }
  if (!files.timeline) return "";
  const TableStyle style = style_of_standard_output();
  return "\n" + terminal_timeline(schedule, {{"predicted", timeline.trace, nullptr}},
                                  {style.width, style.color, false});
}

}  // namespace plumbline
