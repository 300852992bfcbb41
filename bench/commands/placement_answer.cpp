#include "bench/commands/placement_answer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <set>
#include <string_view>

#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/base/shell_word.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

/// Keys that a placed step sets, in the order of its command.
constexpr std::string_view kPlacedKeys[] = {"world_size",
                                            "tensor_model_parallel_size",
                                            "pipeline_model_parallel_size",
                                            "expert_model_parallel_size",
                                            "sequence_parallel",
                                            "micro_batch_size",
                                            "recompute_granularity",
                                            "rollout_placement",
                                            "rollout_world_size",
                                            "rollout_tensor_model_parallel_size",
                                            "rollout_pipeline_model_parallel_size",
                                            "gpu_memory_utilization"};

std::string command_of(const SearchQuestion& asked, const RunConfig& given, const PlacedStep& step) {
  std::string command = "plumbline predict";
  const std::set<std::string_view> placed(std::begin(kPlacedKeys), std::end(kPlacedKeys));
  if (!asked.source.empty()) command += " " + pasted_word(asked.source);
  const auto add = [&](const ConfigKey& key, const std::string& value) {
    command += fmt::format(" --{} {}", key.alias.empty() ? key.flag() : key.alias, pasted_word(value));
  };
  for (const Override& each : asked.keys) {
    const ConfigKey& key = get_config_key(each.key, "search");
    if (!placed.contains(key.name)) add(key, each.value);
  }
  std::set<std::string> by_option;
  for (const Override& each : asked.keys) by_option.insert(get_config_key(each.key, "search").name);
  for (const std::string_view name : kPlacedKeys) {
    const ConfigKey& key = *find_config_key(name);
    const std::string value = key.print(step.config);
    if (by_option.count(key.name) > 0 || value != key.print(given)) add(key, value);
  }
  return command;
}

}  // namespace

PlacementAnswer answer_placements(const SearchQuestion& question, const RunConfig& given,
                                  const std::function<void(int, int)>& progress) {
  PlacementAnswer made;
  made.config = given;
  std::string note;
  const HardwareProfile hardware = hardware_of(given, note);
  PlacementRequest request;
  for (const Override& each : question.keys) request.fixed.insert(get_config_key(each.key, "search").name);
  const bool in_all = request.fixed.count("world_size") > 0;
  made.gpus = given.parallel.world_size + (in_all ? 0 : given.reinforcement.rollout.world);
  request.gpus = made.gpus;
  request.top = question.top;
  request.done = progress;
  const auto begin = std::chrono::steady_clock::now();
  const auto so_far = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  request.stopped = [&] {
    return (question.stopped && question.stopped()) ||
           (question.deadline_s > 0 && so_far() > question.deadline_s);
  };
  made.result = search_placements(given, request, hardware, step_for);
  made.seconds = so_far();
  const PlacementResult& result = made.result;
  if (!result.complete && result.best.empty())
    throw Error(
        fmt::format("search: stopped after {:.3g} s, before a step that fits; expected more time; raise "
                    "--deadline, or cancel later",
                    made.seconds),
        ExitCode::timed_out);
  if (result.predicted == 0)
    throw InputError(
        fmt::format("search: --gpus: found {}, on which no placement is valid, expected a number "
                    "that sizes of the model divide; change --gpus or the batch{}{}",
                    made.gpus, result.refused.empty() ? "" : ": ", result.refused));
  if (result.best.empty())
    throw OutOfMemory(
        fmt::format("search: none of {} placements fits on {} accelerators; raise --gpus, or lower "
                    "seq_length",
                    result.predicted, made.gpus));
  for (const PlacedStep& step : result.best) made.commands.push_back(command_of(question, given, step));
  return made;
}

}  // namespace plumbline
