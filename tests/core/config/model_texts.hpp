// Texts of config.json files of several families.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/error.hpp"
#include "core/config/model_config.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::test {

using nlohmann::json;

inline json llama_json() {
  return {{"model_type", "llama"},    {"hidden_size", 64},    {"intermediate_size", 96},
          {"num_hidden_layers", 2},   {"vocab_size", 100},    {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"hidden_act", "silu"}, {"max_position_embeddings", 32},
          {"rms_norm_eps", 1e-5}};
}
inline json with(json base, const json& changes) {
  base.update(changes);
  return base;
}
inline json without(json base, const char* key) {
  base.erase(key);
  return base;
}
inline json mistral() {
  return with(llama_json(), {{"model_type", "mistral"}, {"sliding_window", nullptr}});
}
inline json qwen() {
  return with(llama_json(),
              {{"model_type", "qwen2"}, {"use_sliding_window", false}, {"tie_word_embeddings", true}});
}
inline json gpt2() {
  return {{"model_type", "gpt2"}, {"n_embd", 48},      {"n_layer", 3},
          {"n_head", 4},          {"n_positions", 32}, {"vocab_size", 100}};
}
inline json deepseek(const json& changes = json::object()) {
  json plain = with(without(llama_json(), "num_key_value_heads"), {{"model_type", "deepseek_v3"},
                                                                   {"q_lora_rank", 24},
                                                                   {"kv_lora_rank", 16},
                                                                   {"qk_nope_head_dim", 12},
                                                                   {"qk_rope_head_dim", 8},
                                                                   {"v_head_dim", 10},
                                                                   {"moe_intermediate_size", 20},
                                                                   {"n_routed_experts", 8},
                                                                   {"n_shared_experts", 2},
                                                                   {"num_experts_per_tok", 3},
                                                                   {"first_k_dense_replace", 1},
                                                                   {"n_group", 1},
                                                                   {"topk_group", 1}});
  return with(plain, changes);
}
inline ModelConfig parse(const json& config) {
  return parse_model_config(config.dump(), "config.json");
}
/// Refusal of parse_model_config; "accepted" without one.
inline std::string complaint(const std::string& text) {
  return test::refusal_of([&] { parse_model_config(text, "config.json"); });
}

}  // namespace plumbline::test
