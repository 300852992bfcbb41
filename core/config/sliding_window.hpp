// Keys of a config.json for layers with sliding-window attention, as transformers reads them.
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

/// Defaults are in `keys` (family_defaults.hpp). `with_nulls` is the same object, read with nulls as values.
///   mistral, mixtral, starcoder2, phi3  `sliding_window` of every layer, none when it is null
///   qwen3_moe                           the same with `use_sliding_window`
///   qwen2, qwen3                        with `use_sliding_window` the layers that `layer_types` names, or
///                                       those from `max_window_layers` on
///   qwen2_moe                           as qwen2, or the layers of even index before `max_window_layers`
///   others                              none
/// Throws InputError naming file, key, what was found and what is expected.
SlidingWindow read_sliding_window(const std::string& architecture, std::int64_t layers, const JsonKeys& keys,
                                  const JsonKeys& with_nulls);

/// Windows of families whose layers repeat: of every `period` layers the last sees all keys, the others have
/// a window. `layer_types` overrides it. period 0: none has a window. others: the name of layers with a
/// window in layer_types.
SlidingWindow read_periodic_windows(std::int64_t window, std::int64_t period, std::int64_t layers,
                                    const JsonKeys& keys, const char* others = "sliding_attention");

/// Adds the keys from which read_sliding_window makes the same to `out`, which has num_hidden_layers.
void write_sliding_window(const std::string& architecture, const SlidingWindow& windows, Json& out);

}  // namespace plumbline
