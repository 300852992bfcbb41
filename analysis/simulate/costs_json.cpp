#include "analysis/simulate/costs_json.hpp"

#include <fmt/format.h>

#include <set>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {
namespace {

constexpr double kMaxMicroseconds = 1e15;

std::set<ActionType> types_of(const Schedule& schedule) {
  std::set<ActionType> types;
  for (const auto& actions : schedule.actions) {
    for (const Action& action : actions) types.insert(action.type);
  }
  return types;
}

struct StageKey {
  const char* key;
  ActionType type;
  Seconds StageCosts::*member;
};
constexpr StageKey kStageKeys[] = {
    {"forward_us", ActionType::forward, &StageCosts::forward},
    {"backward_us", ActionType::backward, &StageCosts::backward},
    {"backward_input_us", ActionType::backward_input, &StageCosts::backward_input},
    {"backward_weight_us", ActionType::backward_weight, &StageCosts::backward_weight},
    {"teacher_forward_us", ActionType::teacher_forward, &StageCosts::teacher_forward},
    {"vocab_forward_us", ActionType::vocab_forward, &StageCosts::vocab_forward},
    {"vocab_backward_us", ActionType::vocab_backward, &StageCosts::vocab_backward},
    {"input_forward_us", ActionType::input_forward, &StageCosts::input_forward},
    {"input_backward_us", ActionType::input_backward, &StageCosts::input_backward},
};

/// A whole backward gives the times of its two parts, and the two parts that of the whole.
StageCosts read_stage(const JsonKeys& keys, const std::set<ActionType>& used) {
  StageCosts costs;
  for (const StageKey& each : kStageKeys)
    costs.*each.member = Seconds{keys.number_or(each.key, 0, kMaxMicroseconds, 0)} * 1e-6;
  keys.refuse_unknown();
  const bool whole = keys.find("backward_us") != nullptr;
  const bool parts = keys.find("backward_input_us") != nullptr && keys.find("backward_weight_us") != nullptr;
  for (const StageKey& each : kStageKeys) {
    const bool follows =
        each.type == ActionType::backward
            ? parts
            : whole && (each.type == ActionType::backward_input || each.type == ActionType::backward_weight);
    if (!follows && used.contains(each.type) && keys.find(each.key) == nullptr)
      keys.fail(each.key, fmt::format("missing, the schedule has {} actions", name_of(each.type)));
  }
  if (whole && !parts) costs.backward_input = costs.backward_weight = costs.backward / 2;
  if (parts && !whole) costs.backward = costs.backward_input + costs.backward_weight;
  return costs;
}

}  // namespace

Costs parse_costs_json(std::string_view text, const std::string& origin, const Schedule& schedule) {
  const Json json = parse_json_object(text, origin, 4);
  const JsonKeys keys(json, origin);
  const auto expected = static_cast<std::size_t>(schedule.stages);
  const Json* stages = keys.find("stages");
  if (stages == nullptr || !stages->is_array() || (stages->size() != expected && stages->size() != 1)) {
    keys.refuse("stages", fmt::format("a list with one entry per stage ({}) or a single one", expected));
  }
  const std::set<ActionType> used = types_of(schedule);
  Costs costs;
  for (const JsonKeys& stage : keys.objects("stages")) costs.stages.push_back(read_stage(stage, used));
  if (costs.stages.size() != expected) costs.stages.resize(expected, costs.stages.front());
  const auto time = [&](const std::string& key) {
    return Seconds{keys.number_or(key, 0, kMaxMicroseconds, 0)} * 1e-6;
  };
  costs.transfer = time("p2p_us");
  costs.latency = time("latency_us");
  costs.receive_busy = time("receive_busy_us");
  costs.reduce_gradients = time("reduce_gradients_us");
  costs.reduce_embedding = time("reduce_embedding_us");
  costs.optimizer = time("optimizer_us");
  for (const char* key : {"c0_us", "c1_us", "c2_us", "i1_us", "i2_us"}) {
    if (schedule.vocab == VocabPasses::none && keys.find(key) != nullptr)
      keys.fail(key, "the schedule has no vocabulary passes; leave it out");
  }
  costs.vocabulary = {time("c0_us"), time("c1_us"), time("c2_us"), time("i1_us"), time("i2_us")};
  costs.step_overhead = time("step_overhead_us");
  costs.overlap_factor = keys.number_or("overlap_factor", 0, 2, 1);
  constexpr std::int64_t kMaxProcesses = 1 << 20;
  costs.processors = static_cast<int>(keys.integer_or("processors", kMaxProcesses, 0));
  costs.processes_per_rank = static_cast<int>(keys.integer_or("processes_per_rank", kMaxProcesses, 1));
  keys.refuse_unknown();
  return costs;
}

}  // namespace plumbline
