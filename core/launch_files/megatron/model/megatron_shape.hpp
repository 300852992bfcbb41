// Sizes and parts of a layer that Megatron-LM's arguments give.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/json_keys.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/megatron/model/megatron_dialect.hpp"

namespace plumbline {

constexpr std::string_view kQuickGate = "a quick gelu gate";

struct MegatronShape {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  bool rms = false, rope = false, bias = false, qkv_bias = false, qk_norm = false;
  bool positions_of_sequence = false;  // as many learned positions as tokens of a sequence
  std::string activation;
  std::string pattern;  // a letter for each layer of a hybrid model; empty: every layer has both blocks
};

/// Flag of Megatron-Core's hybrid models (megatron/core/models/hybrid/hybrid_layer_allocation.py).
inline constexpr const char* kHybridPattern = "--hybrid-layer-pattern";
/// Its letters, without the bars between stages: M a Mamba mixer, * attention, - an MLP, E experts. Empty:
/// not given.
std::string hybrid_pattern(const LaunchArguments& from);

MegatronShape shape_of(const LaunchArguments& from, const MegatronDialect& dialect);

/// Learned positions, or the longest sequence that rotary ones are meant for.
std::int64_t max_positions(const LaunchArguments& from, const MegatronShape& shape);

/// A whole number without which there is no shape. Throws InputError if it is missing.
std::int64_t needed(const LaunchArguments& from, const std::string& flag);

/// Keys of a config.json that families with rotary positions share.
void put_common(const LaunchArguments& from, const MegatronShape& shape, Json& json);

/// Keys before a query and its own, which its window holds.
std::int64_t window_of(const LaunchArguments& from);

/// Refuses layers for `flag`, unless an argument that is not modelled makes them what they are. `expected`
/// empty: the families that there are.
[[noreturn]] void refuse_layers(const LaunchArguments& from, const MegatronShape& shape,
                                const char* flag = "--normalization", const std::string& expected = "");

}  // namespace plumbline
