// Shapes of torchtitan/models/*/__init__.py; flavors that are published models are presets.
#include "core/launch_files/torch/titan/torchtitan_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include <set>
#include <string_view>

#include "core/base/json_keys.hpp"

namespace plumbline {
namespace {

struct TitanModel {
  std::string_view name;
  std::string_view flavor;
  const char* model;
};

// clang-format off
constexpr TitanModel kTitanModels[] = {
    {"llama3", "debugmodel",
     R"({"model_type":"llama","num_hidden_layers":6,"hidden_size":256,"num_attention_heads":16,)"
     R"("num_key_value_heads":16,"intermediate_size":768,"vocab_size":2048,"max_position_embeddings":131072,)"
     R"("rope_theta":500000,"rms_norm_eps":1e-5})"},
    {"llama3", "8B", "llama-3.1-8b"},
    {"llama3", "70B", "llama-3.1-70b"},
    {"llama3", "405B", "llama-3.1-405b"},
    {"qwen3", "debugmodel",
     R"({"model_type":"qwen3","num_hidden_layers":8,"hidden_size":256,"num_attention_heads":16,)"
     R"("num_key_value_heads":8,"head_dim":128,"intermediate_size":3072,"vocab_size":2048,)"
     R"("max_position_embeddings":4096,"rope_theta":1000000,"tie_word_embeddings":true})"},
    {"qwen3", "0.6B", "qwen3-0.6b"},
    {"qwen3", "1.7B", "qwen3-1.7b"},
    {"qwen3", "4B", "qwen3-4b"},
    {"qwen3", "8B", "qwen3-8b"},
    {"qwen3", "14B", "qwen3-14b"},
    {"qwen3", "32B", "qwen3-32b"},
    {"qwen3", "debugmodel_moe",
     R"({"model_type":"qwen3_moe","num_hidden_layers":8,"hidden_size":256,"num_attention_heads":16,)"
     R"("num_key_value_heads":8,"head_dim":128,"intermediate_size":3072,"moe_intermediate_size":768,)"
     R"("num_experts":64,"num_experts_per_tok":8,"norm_topk_prob":true,"vocab_size":2048,)"
     R"("max_position_embeddings":4096,"rope_theta":1000000})"},
    {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
    {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
    {"deepseek_v3", "debugmodel",
     R"({"model_type":"deepseek_v2","num_hidden_layers":6,"hidden_size":256,"num_attention_heads":16,)"
     R"("num_key_value_heads":16,"intermediate_size":1024,"moe_intermediate_size":256,)"
     R"("n_routed_experts":8,"n_shared_experts":2,"num_experts_per_tok":3,"first_k_dense_replace":1,)"
     R"("q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,)"
     R"("v_head_dim":128,"norm_topk_prob":false,"vocab_size":2048,"max_position_embeddings":16384})"},
    {"deepseek_v3", "16B",
     R"({"model_type":"deepseek_v2","num_hidden_layers":27,"hidden_size":2048,"num_attention_heads":16,)"
     R"("num_key_value_heads":16,"intermediate_size":10944,"moe_intermediate_size":1408,)"
     R"("n_routed_experts":64,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,)"
     R"("q_lora_rank":null,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,)"
     R"("v_head_dim":128,"norm_topk_prob":false,"vocab_size":102400,"max_position_embeddings":16384})"},
    {"deepseek_v3", "236B",
     R"({"model_type":"deepseek_v2","num_hidden_layers":60,"hidden_size":5120,"num_attention_heads":128,)"
     R"("num_key_value_heads":128,"intermediate_size":12288,"moe_intermediate_size":1536,)"
     R"("n_routed_experts":160,"n_shared_experts":2,"num_experts_per_tok":6,"first_k_dense_replace":1,)"
     R"("topk_method":"group_limited_greedy","n_group":8,"topk_group":3,"routed_scaling_factor":16.0,)"
     R"("q_lora_rank":1536,"kv_lora_rank":512,"qk_nope_head_dim":128,"qk_rope_head_dim":64,)"
     R"("v_head_dim":128,"norm_topk_prob":false,"vocab_size":102400,"max_position_embeddings":16384})"},
    {"deepseek_v3", "671B", "deepseek-v3"},
    {"gpt_oss", "20b", "gpt-oss-20b"},
    {"gpt_oss", "120b", "gpt-oss-120b"},
    {"llama4", "17bx16e",
     R"({"model_type":"llama4_text","num_hidden_layers":48,"hidden_size":5120,"num_attention_heads":40,)"
     R"("num_key_value_heads":8,"intermediate_size":8192,"intermediate_size_mlp":16384,)"
     R"("num_local_experts":16,"num_experts_per_tok":1,"interleave_moe_layer_step":1,)"
     R"("use_qk_norm":false,"no_rope_layer_interval":1000,"attention_chunk_size":null,)"
     R"("vocab_size":202048,"max_position_embeddings":10485760})"},
    {"llama4", "17bx128e",
     R"({"model_type":"llama4_text","num_hidden_layers":48,"hidden_size":5120,"num_attention_heads":40,)"
     R"("num_key_value_heads":8,"intermediate_size":8192,"intermediate_size_mlp":16384,)"
     R"("num_local_experts":128,"num_experts_per_tok":1,"interleave_moe_layer_step":2,)"
     R"("use_qk_norm":false,"no_rope_layer_interval":1000,"attention_chunk_size":null,)"
     R"("vocab_size":202048,"max_position_embeddings":1048576})"},
    {"llama4", "17bx16e_irope",
     R"({"model_type":"llama4_text","num_hidden_layers":48,"hidden_size":5120,"num_attention_heads":40,)"
     R"("num_key_value_heads":8,"intermediate_size":8192,"intermediate_size_mlp":16384,)"
     R"("num_local_experts":16,"num_experts_per_tok":1,"interleave_moe_layer_step":1,)"
     R"("use_qk_norm":false,"no_rope_layer_interval":4,"attention_chunk_size":8192,)"
     R"("vocab_size":202048,"max_position_embeddings":10485760})"},
    {"llama4", "17bx128e_irope",
     R"({"model_type":"llama4_text","num_hidden_layers":48,"hidden_size":5120,"num_attention_heads":40,)"
     R"("num_key_value_heads":8,"intermediate_size":8192,"intermediate_size_mlp":16384,)"
     R"("num_local_experts":128,"num_experts_per_tok":1,"interleave_moe_layer_step":2,)"
     R"("use_qk_norm":false,"no_rope_layer_interval":4,"attention_chunk_size":8192,)"
     R"("vocab_size":202048,"max_position_embeddings":1048576})"},
};
// clang-format on

/// Flavors that differ in the kernel of attention, or in its mask.
/// Primus's files have "8b" for 8B.
bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

std::string without_kernel(std::string flavor) {
  for (const std::string_view end : {"_flex_attn", "_varlen_attn", "_flex", "_varlen"})
    if (flavor.ends_with(end)) return flavor.substr(0, flavor.size() - end.size());
  return flavor;
}

}  // namespace

std::string torchtitan_model(LaunchArguments& arguments) {
  std::string name = arguments.text("model.name", "llama3");
  if (name.ends_with("_ft")) name.resize(name.size() - 3);
  const std::string written = arguments.text("model.flavor", "debugmodel");
  const std::string flavor = without_kernel(written);
  std::string flavors;
  std::set<std::string> names;
  for (const TitanModel& each : kTitanModels) {
    names.emplace(each.name);
    if (each.name != name) continue;
    if (std::ranges::equal(each.flavor, flavor, same_letter)) {
      if (flavor != written)
        arguments.file().notes.push_back(fmt::format(
            "model.flavor {}: predicted as {}, with causal attention over whole sequences", written, flavor));
      return each.model;
    }
    flavors += fmt::format("{}{}", flavors.empty() ? "" : ", ", each.flavor);
  }
  if (!flavors.empty()) arguments.refuse("model.flavor", "one of " + flavors);
  std::string known;
  for (const std::string& each : names) known += (known.empty() ? "" : ", ") + each;
  arguments.refuse("model.name", "one of " + known);
}

std::optional<std::pair<std::string, std::string>> torchtitan_flavor(const ModelConfig& model) {
  const auto shape = [](const ModelConfig& config) {
    Json keys = Json::parse(to_config_json(config));
    keys.erase("_name_or_path");
    return keys;
  };
  for (const TitanModel& each : kTitanModels) {
    const std::string text = each.model;
    if (shape(text.starts_with('{') ? parse_model_config(text, "model") : *find_preset(text)) == shape(model))
      return std::pair(std::string(each.name), std::string(each.flavor));
  }
  return std::nullopt;
}

}  // namespace plumbline
