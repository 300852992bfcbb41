#include "bench/ask/fixed_keys.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/config/layer_distribution.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

using K = SearchKeys;
using C = RunConfig;

std::vector<int> layers_of(const K& keys, C config) {
  set_keys(keys, config);
  return layers_per_stage(config, keys.pipeline * keys.chunks);
}

/// A balanced distribution that is the even one is tried under that name.
bool has_distribution(const K& keys, const C& config) {
  if (keys.balanced == (config.parallel.pp.layer_distribution == "balanced") || keys.pipeline == 1)
    return true;
  if (keys.balanced) return false;
  K balanced = keys;
  balanced.balanced = true;
  return layers_of(keys, config) == layers_of(balanced, config);
}

/// A key with the candidates that have the configuration's value, or in which it has no effect.
struct FixedKey {
  std::string_view name;
  bool (*same)(const K& keys, const C& config);
};

constexpr FixedKey kFixed[] = {
    {"tensor_model_parallel_size", [](const K& k, const C& c) { return k.tensor == c.parallel.tensor; }},
    {"pipeline_model_parallel_size",
     [](const K& k, const C& c) { return k.pipeline == c.parallel.pipeline; }},
    {"data_parallel_size", [](const K& k, const C& c) { return k.data == c.parallel.data(); }},
    {"context_parallel_size", [](const K& k, const C& c) { return k.context == c.parallel.context; }},
    {"cp_comm_type",
     [](const K& k, const C& c) { return k.context == 1 || k.cp_comm_type == c.parallel.cp.comm_type; }},
    {"hierarchical_context_parallel_sizes",
     [](const K& k, const C& c) {
       const HierarchicalContext sizes = hierarchical_of(k);
       return !sizes.given() || sizes == c.parallel.cp.hierarchical;
     }},
    {"expert_model_parallel_size", [](const K& k, const C& c) { return k.expert == c.parallel.expert; }},
    {"expert_tensor_parallel_size",
     [](const K& k, const C& c) {
       const int given = c.parallel.expert_tensor;  // 0: as tensor_model_parallel_size
       return given == 0 ? k.expert_tensor == 0
                         : given == (k.expert_tensor == 0 ? k.tensor : k.expert_tensor);
     }},
    {"micro_batch_size", [](const K& k, const C& c) { return k.micro_batch == c.batch.micro_batch_size; }},
    {"virtual_pipeline_chunks",
     [](const K& k, const C& c) {
       const int given = c.parallel.pp.virtual_chunks;  // 1: the schedule's own
       return k.chunks == given || (given == 1 && !search_traits(k.schedule).any_chunks());
     }},
    {"pipeline_schedule",
     [](const K& k, const C& c) {
       return k.pipeline == 1 || search_traits(k.schedule).name == c.parallel.pp.schedule;
     }},
    {"sequence_parallel",
     [](const K& k, const C& c) {
       return k.tensor == 1 || k.sequence_parallel == c.parallel.sequence_parallel;
     }},
    {"vocab_parallel",
     [](const K& k, const C& c) { return k.pipeline == 1 || k.vocabulary == c.parallel.pp.vocab_parallel; }},
    {"layer_distribution", has_distribution},
    {"zero_stage",
     [](const K& k, const C& c) {
       return k.data * k.context == 1 || software_of(c).communication.sharded ||
              k.zero == c.parallel.dp.zero_stage;
     }},
    {"grad_dtype",
     [](const K& k, const C& c) {
       return software_of(c).memory.gradient_bytes <= 2 ||
              k.half_gradients == (c.numerics.grad_dtype == GradDType::same);
     }},
    {"recompute_granularity", [](const K& k, const C& c) { return k.recompute == c.recompute.granularity; }},
    {"recompute_method",
     [](const K& k, const C& c) {
       return k.recompute != Recompute::full || k.recompute_method == c.recompute.method;
     }},
    {"recompute_num_layers",
     [](const K& k, const C& c) {
       return k.recompute != Recompute::full || k.recompute_layers == c.recompute.num_layers;
     }},
};

void check_tried(std::string_view name, const C& config) {
  const auto refuse = [&](const std::string& found, const std::string& expected) {
    throw InputError(fmt::format(
        "search: {}: found {}, expected {}, which it tries; remove the key, or give one configuration to "
        "`predict`",
        name, printable(found), expected));
  };
  std::vector<std::string_view> names;
  for (const ScheduleTraits& traits : search_schedules()) names.push_back(traits.name);
  const std::string& schedule = config.parallel.pp.schedule;
  if (name == "pipeline_schedule" && std::ranges::find(names, schedule) == names.end())
    refuse(schedule, fmt::format("one of {}", fmt::join(names, ", ")));
  if (name == "recompute_method" && config.recompute.method != RecomputeMethod::uniform)
    refuse(find_config_key(name)->print(config), "uniform");
  const std::string& layers = config.parallel.pp.layer_distribution;
  if (name == "layer_distribution" && layers != "even" && layers != "balanced")
    refuse(layers, "even or balanced");
}

}  // namespace

FixedKeys fixed_keys(const Overrides& keys, const RunConfig& config) {
  std::set<std::string_view> names;
  for (const Override& each : keys) {
    if (const ConfigKey* key = find_config_key(each.key); key != nullptr) names.insert(key->name);
  }
  FixedKeys fixed;
  std::vector<const FixedKey*> rows;
  for (const FixedKey& row : kFixed) {
    if (!names.contains(row.name)) continue;
    check_tried(row.name, config);
    rows.push_back(&row);
    const std::string value = row.name == "data_parallel_size" ? std::to_string(config.parallel.data())
                                                               : find_config_key(row.name)->print(config);
    fixed.given += fmt::format("{}{} {}", fixed.given.empty() ? "" : ", ", row.name, value);
  }
  if (rows.empty()) return fixed;
  fixed.wanted = [rows, config](const SearchKeys& candidate) {
    return std::ranges::all_of(rows, [&](const FixedKey* row) { return row->same(candidate, config); });
  };
  return fixed;
}

}  // namespace plumbline
