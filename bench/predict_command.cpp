// `plumbline predict`: memory and time of one configuration from the analytical model and a simulation.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bench/commands.hpp"
#include "bench/config_options.hpp"
#include "bench/evaluation.hpp"
#include "bench/reports.hpp"
#include "bench/side_by_side.hpp"
#include "core/error.hpp"

namespace plumbline {
namespace {

/// Where the predicted time of each stage comes from, one micro-batch (or the step's end), longest first.
void explain(const Prediction& prediction) {
  std::vector<CostLine> lines = prediction.lines;
  std::stable_sort(lines.begin(), lines.end(), [](const CostLine& a, const CostLine& b) {
    return a.stage != b.stage ? a.stage < b.stage : a.seconds > b.seconds;
  });
  fmt::print("\n{:<6} {:<9} {:<32} {:>6} {:>12} {:>12}\n", "stage", "phase", "operator", "calls", "us in all",
             "GFLOP/s");
  for (const CostLine& line : lines) {
    const double rate = line.seconds.value > 0 ? line.flops.value / line.seconds.value / 1e9 : 0;
    fmt::print("{:<6} {:<9} {:<32} {:>6} {:>12.1f} {:>12}\n", line.stage, line.phase, line.label, line.count,
               line.seconds.value * 1e6, rate > 0 ? fmt::format("{:.1f}", rate) : "-");
  }
}

int predict_one(const ConfigOptions& options, bool json, bool with_reasons) {
  const RunConfig config = options.load();
  Record record = start_record("predict", config);
  if (record.status != Status::ok) throw InputError(record.reason);
  std::string note;
  const Prediction prediction = predict_config(config, hardware_of(config, note));
  record.prediction = report_of(prediction);
  if (!note.empty()) fmt::print(stderr, "note: {}\n", note);
  fmt::print("{}", json ? to_json(record).dump(2) + "\n" : side_by_side(record));
  if (with_reasons && !json) explain(prediction);
  return static_cast<int>(prediction.fits ? ExitCode::done : ExitCode::does_not_fit);
}

}  // namespace

void add_predict_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("predict", "Predict memory and time of one configuration");
  const auto options = std::make_shared<ConfigOptions>();
  const auto json = std::make_shared<bool>(false);
  add_config_options(*command, *options);
  command->add_flag("--json", *json, "Print the record as JSON");
  const auto with_reasons = std::make_shared<bool>(false);
  command->add_flag("--explain", *with_reasons, "Also print the predicted time of every operator");
  command->callback([=, &action] { action = [=] { return predict_one(*options, *json, *with_reasons); }; });
}

}  // namespace plumbline
