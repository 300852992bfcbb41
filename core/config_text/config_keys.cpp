#include "core/config_text/config_keys.hpp"

#include <fmt/format.h>

#include <unordered_map>

#include "core/base/error.hpp"
#include "core/base/similar_name.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_key_kinds.hpp"

namespace plumbline {

const ConfigKey* find_config_key(std::string_view name) {
  static const std::unordered_map<std::string, const ConfigKey*> kByName = [] {
    std::unordered_map<std::string, const ConfigKey*> keys;
    for (const ConfigKey& key : config_keys()) {
      for (const std::string& each : {key.name, key.alias, key.flag()}) {
        if (!each.empty()) keys.emplace(each, &key);
      }
    }
    return keys;
  }();
  const auto found = kByName.find(std::string(name));
  return found == kByName.end() ? nullptr : found->second;
}

const ConfigKey& get_config_key(std::string_view name, const std::string& origin) {
  if (const ConfigKey* key = find_config_key(name)) return *key;
  std::vector<std::string_view> known;
  for (const ConfigKey& key : config_keys()) {
    known.push_back(key.name);
    if (!key.alias.empty()) known.push_back(key.alias);
  }
  const std::string_view similar = similar_name(name, known);
  throw InputError(fmt::format("{}: found the unknown key \"{}\", expected a known one; {}", origin,
                               printable(name),
                               similar.empty() ? "`plumbline help configuration` lists them"
                                               : fmt::format("the nearest known key is {}", similar)));
}

std::optional<std::string> settle_sizes(ConfigDraft& draft) {
  RunConfig& config = draft.config;
  const std::int64_t model_ranks = config.parallel.model_ranks();
  if (draft.world_size && draft.data_parallel_size &&
      (model_ranks > *draft.world_size || *draft.world_size != model_ranks * *draft.data_parallel_size)) {
    return fmt::format(
        "world_size: found {}, expected tensor x pipeline x context x data parallel size = {} x {} x {} x {}",
        *draft.world_size, config.parallel.tensor, config.parallel.pipeline, config.parallel.context,
        *draft.data_parallel_size);
  }
  const std::int64_t replicas = draft.data_parallel_size.value_or(1);
  if (!draft.world_size && (model_ranks > kMostRanks || model_ranks * replicas > kMostRanks)) {
    return fmt::format("world_size: the parallel sizes multiply to more than the {} ranks that are supported",
                       kMostRanks);
  }
  config.parallel.world_size = static_cast<int>(draft.world_size.value_or(model_ranks * replicas));
  return std::nullopt;
}

}  // namespace plumbline
