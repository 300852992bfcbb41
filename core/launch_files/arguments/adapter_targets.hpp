// Layers with an adapter, by the names that models of Hugging Face have for them.
#pragma once

#include <optional>
#include <set>
#include <string>

namespace plumbline {

struct AdapterTargets {
  const char* key;  // value of lora_targets
  bool exact;       // false: more layers have one there than `names` say
};

/// The least lora_targets that holds all of `names` ("q_proj", "W_pack", "all"); nothing when one is unknown.
std::optional<AdapterTargets> adapter_targets(const std::set<std::string>& names);

}  // namespace plumbline
