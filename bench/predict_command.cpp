// `plumbline predict`: memory and time of one configuration from the analytical model and a simulation.
#include <fmt/format.h>

#include <memory>

#include "bench/commands.hpp"
#include "bench/config_options.hpp"
#include "bench/evaluation.hpp"
#include "bench/reports.hpp"
#include "bench/side_by_side.hpp"
#include "core/error.hpp"

namespace plumbline {
namespace {

int predict_one(const ConfigOptions& options, bool json) {
  const RunConfig config = options.load();
  Record record = start_record("predict", config);
  if (record.status != Status::ok) throw InputError(record.reason);
  std::string note;
  const Prediction prediction = predict_config(config, hardware_of(config, note));
  record.prediction = report_of(prediction);
  if (!note.empty()) fmt::print(stderr, "note: {}\n", note);
  fmt::print("{}", json ? to_json(record).dump(2) + "\n" : side_by_side(record));
  return static_cast<int>(prediction.fits ? ExitCode::done : ExitCode::does_not_fit);
}

}  // namespace

void add_predict_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("predict", "Predict memory and time of one configuration");
  const auto options = std::make_shared<ConfigOptions>();
  const auto json = std::make_shared<bool>(false);
  add_config_options(*command, *options);
  command->add_flag("--json", *json, "Print the record as JSON");
  command->callback([=, &action] { action = [=] { return predict_one(*options, *json); }; });
}

}  // namespace plumbline
