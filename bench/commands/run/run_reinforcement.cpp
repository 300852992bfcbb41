// `plumbline run` of a task of reinforcement learning: time and memory of every phase.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "analysis/reinforcement/reinforcement_prediction.hpp"
#include "bench/commands/run/run_options.hpp"
#include "bench/evaluate/cell_process.hpp"
#include "bench/evaluate/rank_output.hpp"
#include "bench/plan/keys_without_effect.hpp"
#include "bench/plan/plan.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "bench/run/reinforcing_rank.hpp"
#include "bench/show/text/figures.hpp"
#include "bench/show/text/progress.hpp"
#include "bench/show/views/reinforcement/phase_timeline.hpp"
#include "bench/training/trainer/run_files.hpp"
#include "core/base/atomic_file.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"
#include "core/base/output_json.hpp"
#include "core/base/standard_streams.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

using reinforcement::kPhases;
using reinforcement::Phase;
using reinforcement::phase_name;
using reinforcement::PhaseSummary;
using reinforcement::ReinforcementResult;

/// Options of a training step's measurement.
void check_options(const RunCommand& command) {
  const auto refuse = [](bool given, const char* option) {
    if (given) {
      throw InputError(fmt::format(
          "{}: found with a task of reinforcement learning, expected task train or sft; leave it out",
          option));
    }
  };
  refuse(command.timeline, "--timeline");
  refuse(!command.files.checkpoints.folder.empty(), "--checkpoint-dir");
  refuse(!command.failures.empty(), "--inject-failures");
  refuse(command.logs.any(), "--mllog, --tensorboard");
  refuse(!command.launcher.launcher.empty() || !command.launcher.hostfile.empty(), "--launcher, --hostfile");
}

void require_executable(const RunConfig& config) {
  if (const auto reason = why_phases_invalid(config)) throw InputError(*reason);
  const RunConfig layers = update_config(config);
  if (const auto reason = why_unsupported(layers)) throw InputError(*reason);
  std::vector<ModelConfig> scalar;  // models with a scalar head
  if (config.has_critic()) scalar.push_back(critic_model(config));
  if (config.reinforcement.reward) scalar.push_back(*config.reinforcement.reward);
  for (const ModelConfig& model : scalar)
    if (const auto reason = why_unsupported(update_config(config, model))) throw InputError(*reason);
  if (const std::string reason = reinforcement::why_not_executed(config, schedule_for(layers));
      !reason.empty())
    throw InputError(reason);
}

/// `pools`: ranks that train and others that generate. `numbers`: of a run that computes some.
std::string to_json(const ReinforcementResult& result, bool pools, bool numbers) {
  OrderedJson json;
  json["phases"] = OrderedJson::array();
  for (std::size_t i = 0; i < kPhases; ++i) {
    const PhaseSummary& phase = result.phases[i];
    if (phase.peak == Bytes{}) continue;  // not of this step
    json["phases"].push_back({{"phase", phase_name(static_cast<Phase>(i))},
                              {"start_s", phase.start.value},
                              {"time_s", phase.time.value},
                              {"peak_bytes", phase.peak.value},
                              {"held_bytes", phase.held.value}});
  }
  json["step_s"] = result.step.value;
  if (pools) {
    json["training_idle"] = result.training_idle;
    json["rollout_idle"] = result.rollout_idle;
  }
  json["staleness"] = result.staleness;
  json["refit_sent_bytes"] = result.refit_sent.value;
  json["refit_copied_bytes"] = result.refit_copied.value;
  if (result.host.value > 0) json["host_bytes"] = result.host.value;
  json["response_tokens"] = result.mean_length;
  if (numbers) {
    json["rewards"] = result.rewards;
    json["kl"] = result.divergences;
    json["losses"] = result.losses;
    json["gradient_norm"] = result.gradient_norm;
    if (result.critic_losses.empty()) return output_json(json, -1);
    json["critic_losses"] = result.critic_losses;
    json["explained_variance"] = result.explained_variances;
    json["critic_gradient_norm"] = result.critic_gradient_norm;
  }
  return output_json(json, -1);
}

/// Adds the prediction to what was measured, and returns it.
ReinforcementPrediction add_prediction(const RunConfig& config, OrderedJson& json) {
  std::string note;
  const HardwareProfile hardware = hardware_of(config, note);
  ReinforcementPrediction prediction = predict_reinforcement(config, hardware, step_for);
  if (!note.empty()) say(fmt::format("note: {}\n", note));
  for (OrderedJson& phase : json["phases"]) {
    for (const StepPhase& each : prediction.phases) {
      if (each.name != phase["phase"].get<std::string>()) continue;
      phase["predicted_start_s"] = each.start.value;
      phase["predicted_time_s"] = each.time.value;
      phase["predicted_bytes"] = sum_of(each.memory).value;
    }
  }
  json["predicted_step_s"] = prediction.step.value;
  json["predicted_staleness"] = prediction.staleness;
  if (json.contains("training_idle")) {
    json["predicted_training_idle"] = prediction.training_idle;
    json["predicted_rollout_idle"] = prediction.rollout_idle;
  }
  return prediction;
}

/// Phases as they were measured; kinds and pools are those of the predicted ones.
std::vector<StepPhase> measured_phases(const OrderedJson& json, const std::vector<StepPhase>& predicted) {
  std::vector<StepPhase> made;
  for (const OrderedJson& each : json["phases"]) {
    StepPhase phase;
    phase.kind = PhaseKind::scoring;  // advantages, which are not predicted
    const std::string name = each["phase"];
    const auto like = std::find_if(predicted.begin(), predicted.end(),
                                   [&](const StepPhase& other) { return other.name == name; });
    if (like != predicted.end()) phase = *like;
    phase.name = name;
    phase.start = Seconds{each["start_s"]};
    phase.time = Seconds{each["time_s"]};
    phase.needed = Bytes{each["peak_bytes"]};
    made.push_back(std::move(phase));
  }
  return made;
}

std::string to_text(const OrderedJson& json) {
  const auto time = [](const OrderedJson& of, const char* key) {
    return of.contains(key) ? readable_time(of[key].get<double>()) : std::string();
  };
  const auto bytes = [](const OrderedJson& of, const char* key) {
    return of.contains(key) ? brief_bytes({of[key].get<std::int64_t>()}) : std::string();
  };
  std::string text = fmt::format("{:<28}{:>12}{:>12}{:>14}{:>14}{:>14}\n", "phase", "predicted", "measured",
                                 "predicted", "peak memory", "held after");
  for (const OrderedJson& phase : json["phases"]) {
    text +=
        fmt::format("{:<28}{:>12}{:>12}{:>14}{:>14}{:>14}\n", phase["phase"].get<std::string>(),
                    time(phase, "predicted_time_s"), time(phase, "time_s"), bytes(phase, "predicted_bytes"),
                    bytes(phase, "peak_bytes"), bytes(phase, "held_bytes"));
  }
  text += fmt::format("{:<28}{:>12}{:>12}\n", "step", time(json, "predicted_step_s"), time(json, "step_s"));
  text += fmt::format("refit: {} between ranks, {} within them; responses of {:.1f} tokens\n",
                      bytes(json, "refit_sent_bytes"), bytes(json, "refit_copied_bytes"),
                      json["response_tokens"].get<double>());
  if (json.contains("training_idle")) {
    const auto percent = [&](const char* key) { return 100 * json[key].get<double>(); };
    text += fmt::format(
        "idle: {:.1f} % of training's ranks (predicted {:.1f} %), {:.1f} % of the rollout's (predicted "
        "{:.1f} "
        "%)\n",
        percent("training_idle"), percent("predicted_training_idle"), percent("rollout_idle"),
        percent("predicted_rollout_idle"));
    text += fmt::format("age of the responses' weights: {:.1f} updates (predicted {:.1f})\n",
                        json["staleness"].back().get<double>(), json["predicted_staleness"].get<double>());
  }
  if (!json.contains("rewards")) return text;
  for (std::size_t i = 0; i < json["rewards"].size(); ++i) {
    const auto of = [&](const char* key) { return json[key][i].get<double>(); };
    text += fmt::format("step {}: reward {:.4f}, KL {:.6f}, loss {:.6f}", i + 1, of("rewards"), of("kl"),
                        of("losses"));
    if (json.contains("critic_losses"))
      text += fmt::format(", critic loss {:.6f}, explained variance {:.3f}", of("critic_losses"),
                          of("explained_variance"));
    text += "\n";
  }
  return text;
}

}  // namespace

int launch_reinforcement(const RunCommand& command, bool quiet) {
  const RunConfig config = command.config.load_with_notes();
  check_options(command);
  require_executable(config);
  check_phases_trace(config, command.files.trace);
  if (!command.files.trace.empty()) check_can_write(command.files.trace, "--trace");
  if (!command.svg.empty()) check_can_write(command.svg, "--svg");
  for (const std::string& remark : training::check_files(config)) say(fmt::format("note: {}\n", remark));
  for (const std::string& idle : keys_without_effect(config)) say(fmt::format("note: {}\n", idle));
  const RunFolder scratch(RunFolderUse::files);
  const std::string file = scratch.path() + "/config.yaml";
  write_whole_file(file, to_yaml(config));
  Progress progress(1, 0, quiet ? nullptr : stderr);
  OrderedJson measured =
      OrderedJson::parse(output_of_ranks(config, {"run", file}, scratch.path(), "nothing was measured",
                                         [&](auto done, auto all) { progress.update(done, all, "steps"); }));
  const ReinforcementPrediction predicted = add_prediction(config, measured);
  const std::vector<TracedStep> steps = {{"predicted", predicted.phases},
                                         {"measured", measured_phases(measured, predicted.phases)}};
  if (const std::string& trace = command.files.trace; !trace.empty())
    write_whole_file(trace, phases_trace(config, steps));
  if (!command.svg.empty()) write_whole_file(command.svg, phases_svg(config, steps, predicted.limit));
  fmt::print("{}", command.json ? output_json(measured, 2) + "\n" : to_text(measured));
  return static_cast<int>(ExitCode::done);
}

int reinforce_as_rank(const RunCommand& command, const RunConfig& config) {
  check_options(command);
  require_executable(config);
  return run_as_reinforcing_rank(config, [&](const ReinforcementResult& result) {
    const std::string text = to_json(result, config.reinforcement.rollout.own_ranks(),
                                     config.machine.backend != Backend::emulated);
    if (const char* path = std::getenv(kRecordOutVariable)) return write_whole_file(path, text);
    fmt::print("{}\n", text);
  });
}

}  // namespace plumbline
