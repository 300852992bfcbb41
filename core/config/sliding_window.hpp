// The keys of a config.json that say which layers have sliding-window attention, as transformers reads them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json_keys.hpp"

namespace plumbline {

/// As the members of ModelConfig of these names.
struct SlidingWindow {
  std::int64_t sliding_window = 0;
  std::vector<bool> full_attention;
};

/// mistral: `sliding_window` of every layer, 4096 when it is missing, none when it is null. qwen2: with
/// `use_sliding_window` the layers from `max_window_layers` on, or those that `layer_types` names; without,
/// none. Other architectures have none. `with_nulls` is the same object, read with nulls as values. Throws
/// InputError naming file, key, what was found and what is expected.
SlidingWindow read_sliding_window(const std::string& architecture, std::int64_t layers, const JsonKeys& keys,
                                  const JsonKeys& with_nulls);

/// Adds the keys from which read_sliding_window makes the same.
void write_sliding_window(const std::string& architecture, const SlidingWindow& windows, Json& out);

}  // namespace plumbline
