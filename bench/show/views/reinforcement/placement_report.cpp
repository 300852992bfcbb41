#include "bench/show/views/reinforcement/placement_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/byte_text.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/config_listing.hpp"

namespace plumbline {
namespace {

std::string value_of(const RunConfig& config, const char* key) {
  return find_config_key(key)->print(config);
}

std::string training_of(const RunConfig& config) {
  std::string text = fmt::format("{} ranks, TP {}, PP {}", config.parallel.world_size, config.parallel.tensor,
                                 config.parallel.pipeline);
  if (config.model.mixture) text += fmt::format(", EP {}", config.parallel.expert);
  return text + fmt::format(", mbs {}{}", config.batch.micro_batch_size,
                            config.recompute.granularity == Recompute::full ? ", recompute full" : "");
}

std::string rollout_of(const PlacedStep& step) {
  const RolloutConfig& rollout = step.config.reinforcement.rollout;
  return fmt::format("{} x TP {}{}", step.prediction.rollout.replicas, rollout.tensor,
                     rollout.pipeline > 1 ? fmt::format(" x PP {}", rollout.pipeline) : "");
}

const StepPhase& longest(const ReinforcementPrediction& made) {
  return *std::max_element(made.phases.begin(), made.phases.end(),
                           [](const StepPhase& a, const StepPhase& b) { return a.time < b.time; });
}

std::string line_of(const std::string& number, const PlacedStep& step, const ByteUnit& unit) {
  const ReinforcementPrediction& made = step.prediction;
  return fmt::format("{:>3} {:>9.2f} {:>12.1f} {:>9} {:>4.1f}  {:<13} {:<52} {:<12} {}\n", number,
                     made.step.value, made.tokens_per_s_per_gpu, unit.of(made.phases[made.fullest].needed),
                     made.staleness, value_of(step.config, "rollout_placement"), training_of(step.config),
                     rollout_of(step), longest(made).name);
}

OrderedJson json_of(const PlacedStep& step) {
  const ReinforcementPrediction& made = step.prediction;
  OrderedJson json;
  for (const auto& [key, value] : describe(step.config)) json["config"][key] = value;
  json["step_s"] = made.step.value;
  json["tokens_per_s_per_gpu"] = made.tokens_per_s_per_gpu;
  json["needed_bytes"] = made.phases[made.fullest].needed.value;
  json["limit_bytes"] = made.limit.value;
  json["staleness"] = made.staleness;
  for (const StepPhase& phase : made.phases) json["phases"][phase.name] = phase.time.value;
  return json;
}

}  // namespace

std::string placements_text(const PlacementAnswer& answer) {
  const PlacementResult& result = answer.result;
  std::string text =
      fmt::format("{} of {} on {} x {}: {} placements predicted in {:.2f} s, {} fit{}\n\n",
                  value_of(answer.config, "task"), printable(answer.config.model.name, 60), answer.gpus,
                  answer.config.machine.hardware.empty() ? "this machine's ranks"
                                                         : printable(answer.config.machine.hardware, 60),
                  result.predicted, answer.seconds, result.fitting, result.complete ? "" : "; stopped early");
  const ByteUnit unit = column_unit(result.best.front().prediction.limit);
  text += fmt::format("{:>3} {:>9} {:>12} {:>9} {:>4}  {:<13} {:<52} {:<12} {}\n", "#", "step s",
                      "tokens/s/GPU", unit.name, "age", "placement", "training", "rollout", "longest phase");
  for (std::size_t i = 0; i < result.best.size(); ++i)
    text += line_of(std::to_string(i + 1), result.best[i], unit);
  text += "best of each placement:\n";
  for (const PlacedStep& step : result.of_placement) text += line_of("", step, unit);
  text += fmt::format(
      "{}: of the fullest rank and phase; age: of the responses' weights, in updates\n\ncommands:\n",
      unit.name);
  for (std::size_t i = 0; i < answer.commands.size(); ++i)
    text += fmt::format("{:>3} {}\n", i + 1, answer.commands[i]);
  return text;
}

std::string placements_json(const PlacementAnswer& answer) {
  const PlacementResult& result = answer.result;
  OrderedJson json;
  json["gpus"] = answer.gpus;
  json["seconds"] = answer.seconds;
  json["complete"] = result.complete;
  json["predicted"] = result.predicted;
  json["fitting"] = result.fitting;
  json["best"] = OrderedJson::array();
  for (std::size_t i = 0; i < result.best.size(); ++i) {
    json["best"].push_back(json_of(result.best[i]));
    json["best"].back()["command"] = answer.commands[i];
  }
  json["best_of_placement"] = OrderedJson::array();
  for (const PlacedStep& step : result.of_placement) json["best_of_placement"].push_back(json_of(step));
  return output_json(json, 2) + "\n";
}

}  // namespace plumbline
