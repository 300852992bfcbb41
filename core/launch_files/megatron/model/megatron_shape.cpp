#include "core/launch_files/megatron/model/megatron_shape.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/base/error.hpp"
#include "core/launch_files/megatron/model/expert_layers.hpp"

namespace plumbline {
namespace {

constexpr const char* kQueryGroups = "--num-query-groups";
constexpr const char* kFamilies =
    "layers that a family of models has (GPT-2: LayerNorm, gelu, learned, biases; Llama and Qwen: RMSNorm, "
    "swiglu, rope; Nemotron: LayerNorm, gelu or squared relu, rope; StableLM: LayerNorm, swiglu, rope)";

/// Specifications of layers with other mixers than attention, without the pattern that says where they are.
void refuse_hybrid_spec(const LaunchArguments& from) {
  const LaunchArgument* const spec = from.find("--spec");
  if (spec == nullptr) return;
  for (const std::string& word : spec->values)
    for (const char* mixer : {"mamba", "hybrid", "gated_delta_net"})
      if (word.find(mixer) != std::string::npos)
        from.refuse("--spec", fmt::format("attention in every layer, or {} beside it", kHybridPattern));
}

}  // namespace

std::int64_t needed(const LaunchArguments& from, const std::string& flag) {
  if (!from.has(flag)) {
    throw InputError(fmt::format("{}: missing, expected a whole number: the model's shape needs it", flag));
  }
  return from.integer(flag, 0);
}

// Rotary positions have no table: Megatron-Bridge and frameworks around Megatron-LM do without the number.
std::int64_t max_positions(const LaunchArguments& from, const MegatronShape& shape) {
  const char* const flag = "--max-position-embeddings";
  if (from.has(flag) || !(shape.rope || shape.positions_of_sequence)) return needed(from, flag);
  return needed(from, "--seq-length");
}

std::string hybrid_pattern(const LaunchArguments& from) {
  std::string pattern = from.text(kHybridPattern, "None");
  if (pattern == "None") {
    refuse_hybrid_spec(from);
    return "";
  }
  std::erase(pattern, '|');
  if (pattern.empty() || pattern.find_first_not_of("M*-E") != std::string::npos)
    from.refuse(kHybridPattern, "layers by the letters M, *, - and E, with | between stages");
  return pattern;
}

MegatronShape shape_of(const LaunchArguments& from, const MegatronDialect& dialect) {
  MegatronShape shape;
  shape.pattern = hybrid_pattern(from);
  const char* const layers = from.has("--encoder-num-layers") ? "--encoder-num-layers" : "--num-layers";
  shape.layers = std::ssize(shape.pattern);
  if (shape.pattern.empty() || from.has(layers)) shape.layers = needed(from, layers);
  if (!shape.pattern.empty() && shape.layers != std::ssize(shape.pattern))
    from.refuse(layers, fmt::format("the {} letters of {}", shape.pattern.size(), kHybridPattern));
  shape.hidden = needed(from, "--hidden-size");
  shape.heads = needed(from, "--num-attention-heads");
  if (shape.heads < 1) from.refuse("--num-attention-heads", "1 or more");
  // TransformerConfig takes num_query_groups alone; Megatron-LM's arguments pass it on with the switch
  // (NVIDIA/Megatron-LM@2a75ac12 megatron/core/transformer/transformer_config.py, training/arguments.py).
  const bool grouped = from.on("--group-query-attention") || (dialect.provider && from.has(kQueryGroups));
  shape.kv_heads = grouped ? from.integer(kQueryGroups, 1) : shape.heads;
  shape.positions_of_sequence = dialect.provider;
  const bool gated = from.on("--swiglu");
  const bool quick = from.on("--quick-geglu");
  if (shape.kv_heads < 1 || shape.heads % shape.kv_heads != 0)
    from.refuse(kQueryGroups, fmt::format("a divisor of the {} attention heads", shape.heads));
  shape.head_dim = from.has("--kv-channels") && from.text("--kv-channels", "") != "None"
                       ? from.integer("--kv-channels", 0)
                       : 0;
  if (shape.head_dim == 0) {
    if (shape.hidden % shape.heads != 0)
      from.refuse("--num-attention-heads",
                  fmt::format("a divisor of --hidden-size {}, or --kv-channels with it", shape.hidden));
    shape.head_dim = shape.hidden / shape.heads;
  }
  shape.ffn = from.integer("--ffn-hidden-size", 0);
  if (shape.ffn == 0) shape.ffn = gated ? shape.hidden * 8 / 3 / 64 * 64 : 4 * shape.hidden;
  const std::string norm = from.text("--normalization", "LayerNorm");
  if (norm != "LayerNorm" && norm != "RMSNorm") from.refuse("--normalization", "LayerNorm or RMSNorm");
  shape.rms = norm == "RMSNorm";
  const std::string positions = from.text("--position-embedding-type", "learned_absolute");
  shape.rope = positions == "rope" || positions == "yarn" || from.on("--use-rotary-position-embeddings") ||
               from.on("--enable-gpt-oss");  // YaRN (megatron/post_training/model_builder.py)
  if (!shape.rope && positions != "learned_absolute" && !(positions == "none" && !shape.pattern.empty()))
    from.refuse("--position-embedding-type", "rope, yarn or learned_absolute");
  shape.bias = !from.on("--disable-bias-linear");
  shape.qkv_bias = shape.bias || from.on("--add-qkv-bias");
  shape.qk_norm = from.on("--qk-layernorm");
  shape.activation = gated ? "silu" : quick ? kQuickGate : from.on("--squared-relu") ? "relu2" : "gelu_new";
  return shape;
}

void put_common(const LaunchArguments& from, const MegatronShape& shape, Json& json) {
  json["num_hidden_layers"] = shape.layers;
  json["hidden_size"] = shape.hidden;
  json["num_attention_heads"] = shape.heads;
  json["num_key_value_heads"] = shape.kv_heads;
  json["head_dim"] = shape.head_dim;
  json["intermediate_size"] = shape.ffn;
  json["hidden_act"] = shape.activation;
  json["max_position_embeddings"] = max_positions(from, shape);
  json["tie_word_embeddings"] = !from.on("--untie-embeddings-and-output-weights");
  json["initializer_range"] = from.number("--init-method-std", 0.02);
  if (!shape.rope) return;
  json["rope_theta"] = from.number("--rotary-base", 10000);
  if (!from.on("--use-rope-scaling")) return;
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", from.number("--rope-scaling-factor", 8)},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
}

std::int64_t window_of(const LaunchArguments& from) {
  const std::vector<std::int64_t> numbers = expert_layers(from.find("--window-size")->values);
  return numbers.empty() ? 0 : numbers.front() + 1;
}

void refuse_layers(const LaunchArguments& from, const MegatronShape& shape, const char* flag,
                   const std::string& expected) {
  from.file().require_modelled();
  throw InputError(fmt::format("{}: found {} with activation {}, {} positions, {}; expected {}", flag,
                               shape.rms ? "RMSNorm" : "LayerNorm", shape.activation,
                               shape.rope ? "rotary" : "learned",
                               shape.bias       ? "biases"
                               : shape.qkv_bias ? "biases of queries, keys and values"
                                                : "no biases",
                               expected.empty() ? kFamilies : expected));
}

}  // namespace plumbline
