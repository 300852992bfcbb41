#include "bench/show/views/reinforcement/reinforcement_summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/show/text/time_basis.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/one_line.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

std::string plan_lines(const RunConfig& config, const ReinforcementPrediction& made) {
  const ReinforcementConfig& of = config.reinforcement;
  const ParallelConfig rollout = rollout_config(config).parallel;
  const std::string& hardware = config.machine.hardware;
  const auto value = [&](const char* key) { return find_config_key(key)->print(config); };
  return fmt::format(
      "{} of {} on {} x {}: {} prompts x {} responses, {} updates of {} a step; {}\n"
      "training: {} ranks, TP {}, PP {}, DP {}, ZeRO {}, {}\n"
      "rollout ({}): {} ranks, TP {}, PP {}, {} replicas with {} sequences at once, {}\n",
      value("task"), printable(config.model.name, 60), made.gpus,
      hardware.empty() ? "this machine's ranks" : printable(hardware, 60), of.prompts, of.group_size,
      made.updates, config.batch.global_batch_size, value("precision"), config.parallel.world_size,
      config.parallel.tensor, config.parallel.pipeline, config.parallel.data(), config.parallel.dp.zero_stage,
      printable(config.machine.software, 60), value("rollout_placement"), rollout.world_size, rollout.tensor,
      rollout.pipeline, made.rollout.replicas, made.rollout.sequences_at_once,
      printable(of.rollout.software, 60));
}

std::string verdict_lines(const ReinforcementPrediction& made) {
  const StepPhase& fullest = made.phases[made.fullest];
  if (made.limit.value == 0)
    return fmt::format("needs: {}, phase {}\n", brief_bytes(fullest.needed), fullest.name);
  return fmt::format("{}: {} of {} ({:.0f} %), phase {}\n", made.fits ? "fits" : "does not fit",
                     brief_bytes(fullest.needed), brief_bytes(made.limit),
                     100 * static_cast<double>(fullest.needed.value) / static_cast<double>(made.limit.value),
                     fullest.name);
}

std::string phase_table(const ReinforcementPrediction& made) {
  const ByteUnit unit = column_unit(made.phases[made.fullest].needed);
  std::string text = fmt::format("\n{:<28} {:>10} {:>7} {:>10}  {}\n", "phase", "s", "% step",
                                 fmt::format("{}", unit.name), "of which");
  for (const StepPhase& phase : made.phases) {
    std::string parts;
    for (const MemoryPart& part : phase.memory) {
      if (part.bytes.value == 0) continue;
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", part.name, unit.of(part.bytes));
    }
    text += fmt::format("{:<28} {:>10.3f} {:>7.1f}", phase.name, phase.time.value,
                        100 * (phase.time / made.step));
    text += phase.memory.empty() ? "\n" : fmt::format(" {:>10}  {}\n", unit.of(phase.needed), parts);
  }
  return text;
}

std::string step_lines(const ReinforcementPrediction& made) {
  const RolloutPrediction& rollout = made.rollout;
  const auto slowest =
      std::max_element(made.phases.begin(), made.phases.end(),
                       [](const StepPhase& a, const StepPhase& b) { return a.time.value < b.time.value; });
  std::string text = fmt::format("\nstep                         {:>10.3f} s; longest phase: {}\n",
                                 made.step.value, slowest->name);
  text += fmt::format("tokens/s per GPU             {:>10.1f}, of prompts and responses\n",
                      made.tokens_per_s_per_gpu);
  text += fmt::format(
      "responses                    {:>10.0f} tokens on average, longest {}; {:.1f} sequences at once on "
      "average\n",
      rollout.mean_response, rollout.longest, rollout.slowest.mean_sequences);
  text += fmt::format("rollout of other replicas    {:>10.1f} % of the slowest one's time on average\n",
                      100 * (rollout.mean / rollout.slowest.time));
  text += fmt::format("refit                        {:>10} of weights to a replica\n",
                      brief_bytes(made.refit.weights));
  if (made.training_idle > 0 || made.rollout_idle > 0)
    text += fmt::format(
        "idle                         {:>10.1f} % of training's ranks, {:.1f} % of the rollout's\n",
        100 * made.training_idle, 100 * made.rollout_idle);
  text += fmt::format("age of the responses' weights{:>10.1f} updates on average\n", made.staleness);
  if (made.host.value > 0)
    text += fmt::format("on the host of a rank        {:>10} while others work\n", brief_bytes(made.host));
  return text;
}

std::string basis_lines(const RunConfig& config, const HardwareProfile& hardware) {
  std::string text =
      "\nparameters, gradients, optimizer, KV cache: as predicted for each task alone; phases' workspace: "
      "estimated\n";
  const RolloutConfig& rollout = config.reinforcement.rollout;
  if (hardware.guessed()) {
    text += "time: guess from generic rates\n";
  } else if (rollout.framework == RlFramework::none || rollout.framework == RlFramework::verl) {
    text +=
        "time: updates and rollout as predicted for each task alone; refit and offload: messages and copies "
        "alone, without the host's work\n";
  } else {
    text += fmt::format(
        "time: updates and rollout as predicted for each task alone; refit and offload: with the "
        "published work of {} on the host\n",
        find_config_key("rl_framework")->print(config));
  }
  if (rollout.length_mean == 0 && rollout.lengths.empty())
    text += "every response has max_new_tokens; response_length_mean gives their distribution\n";
  return text;
}

}  // namespace

std::string reinforcement_text(const RunConfig& config, const HardwareProfile& hardware,
                               const ReinforcementPrediction& prediction) {
  return plan_lines(config, prediction) + verdict_lines(prediction) + phase_table(prediction) +
         step_lines(prediction) + basis_lines(config, hardware);
}

OrderedJson reinforcement_json(const RunConfig& config, const HardwareProfile& hardware,
                               const ReinforcementPrediction& prediction) {
  OrderedJson json;
  for (const auto& [key, value] : describe(config)) json["config"][key] = value;
  json["fits"] = prediction.fits;
  json["limit_bytes"] = prediction.limit.value;
  json["fullest"] = prediction.phases[prediction.fullest].name;
  json["phases"] = OrderedJson::array();
  for (const StepPhase& phase : prediction.phases) {
    OrderedJson memory = OrderedJson::array();
    for (const MemoryPart& part : phase.memory)
      memory.push_back({{"name", part.name}, {"bytes", part.bytes.value}});
    json["phases"].push_back({{"name", phase.name},
                              {"on_rollout_ranks", phase.on_rollout_ranks},
                              {"start_s", phase.start.value},
                              {"time_s", phase.time.value},
                              {"needed_bytes", phase.needed.value},
                              {"memory", memory}});
  }
  const RolloutPrediction& rollout = prediction.rollout;
  json["rollout"] = {{"replicas", rollout.replicas},
                     {"sequences_at_once", rollout.sequences_at_once},
                     {"cache_tokens", rollout.cache_tokens},
                     {"mean_response", rollout.mean_response},
                     {"longest", rollout.longest},
                     {"steps", rollout.slowest.steps},
                     {"mean_sequences", rollout.slowest.mean_sequences},
                     {"slowest_s", rollout.slowest.time.value},
                     {"mean_s", rollout.mean.value}};
  json["refit"] = {{"weights_bytes", prediction.refit.weights.value},
                   {"inside_node_bytes", prediction.refit.inside.value},
                   {"between_nodes_bytes", prediction.refit.between.value},
                   {"time_s", prediction.refit.time.value}};
  json["updates"] = prediction.updates;
  json["step_s"] = prediction.step.value;
  json["training_idle"] = prediction.training_idle;
  json["rollout_idle"] = prediction.rollout_idle;
  json["staleness"] = prediction.staleness;
  json["host_bytes"] = prediction.host.value;
  json["tokens"] = prediction.tokens;
  json["tokens_per_s_per_gpu"] = prediction.tokens_per_s_per_gpu;
  json["trust"] = {{"workspace", "estimated"},
                   {"time", name_of(time_basis(hardware.guessed(), hardware.accelerator() != nullptr))}};
  return json;
}

}  // namespace plumbline
