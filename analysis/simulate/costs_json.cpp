#include "analysis/simulate/costs_json.hpp"

#include <fmt/format.h>

#include <array>
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

void refuse_unknown(const Json& object, const std::string& origin, const std::set<std::string>& known) {
  for (const auto& [key, value] : object.items()) {
    if (!known.contains(key)) {
      throw InputError(fmt::format("{}: unknown key \"{}\"", origin, JsonKeys::shown(key)));
    }
  }
}

class StageReader {
 public:
  StageReader(const Json& object, const std::string& origin, const std::set<ActionType>& used)
      : keys_(object, origin), used_(used) {
    refuse_unknown(
        object, origin,
        {"forward_us", "backward_us", "backward_input_us", "backward_weight_us", "teacher_forward_us",
         "vocab_forward_us", "vocab_backward_us", "input_forward_us", "input_backward_us"});
  }

  StageCosts read() const {
    StageCosts costs;
    costs.forward = get("forward_us", ActionType::forward);
    costs.teacher_forward = get("teacher_forward_us", ActionType::teacher_forward);
    costs.vocab_forward = get("vocab_forward_us", ActionType::vocab_forward);
    costs.vocab_backward = get("vocab_backward_us", ActionType::vocab_backward);
    costs.input_forward = get("input_forward_us", ActionType::input_forward);
    costs.input_backward = get("input_backward_us", ActionType::input_backward);
    const bool whole = keys_.find("backward_us") != nullptr;
    const bool parts =
        keys_.find("backward_input_us") != nullptr && keys_.find("backward_weight_us") != nullptr;
    if (whole || !parts) costs.backward = get("backward_us", ActionType::backward);
    if (parts || !whole) {
      costs.backward_input = get("backward_input_us", ActionType::backward_input);
      costs.backward_weight = get("backward_weight_us", ActionType::backward_weight);
    } else {
      costs.backward_input = costs.backward_weight = costs.backward / 2;
    }
    if (!whole && parts) costs.backward = costs.backward_input + costs.backward_weight;
    return costs;
  }

 private:
  Seconds get(const std::string& key, ActionType type) const {
    if (keys_.find(key) == nullptr && used_.contains(type)) {
      keys_.fail(key, fmt::format("missing, the schedule has {} actions", name_of(type)));
    }
    return Seconds{keys_.number_or(key, 0, kMaxMicroseconds, 0)} * 1e-6;
  }

  JsonKeys keys_;
  const std::set<ActionType>& used_;
};

}  // namespace

Costs parse_costs_json(std::string_view text, const std::string& origin, const Schedule& schedule) {
  const Json json = parse_json_object(text, origin, 4);
  const JsonKeys keys(json, origin);
  refuse_unknown(json, origin,
                 {"stages", "p2p_us", "latency_us", "receive_busy_us", "reduce_gradients_us",
                  "reduce_embedding_us", "optimizer_us", "step_overhead_us", "overlap_factor", "processors",
                  "processes_per_rank", "c0_us", "c1_us", "c2_us", "i1_us", "i2_us"});
  const Json* stages = keys.find("stages");
  const auto expected = static_cast<std::size_t>(schedule.stages);
  if (stages == nullptr || !stages->is_array() || (stages->size() != expected && stages->size() != 1)) {
    keys.fail("stages",
              fmt::format("expected a list with one entry per stage ({}) or a single one", expected));
  }
  const std::set<ActionType> used = types_of(schedule);
  Costs costs;
  for (std::size_t i = 0; i < stages->size(); ++i) {
    const Json& entry = (*stages)[i];
    const std::string where = fmt::format("{}: stages[{}]", origin, i);
    if (!entry.is_object()) throw InputError(fmt::format("{}: expected an object of times", where));
    costs.stages.push_back(StageReader(entry, where, used).read());
  }
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
  return costs;
}

}  // namespace plumbline
