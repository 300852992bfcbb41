// Shapes of published models, as their config.json files have them (the models' repositories at
// huggingface.co).
#include "core/config/families/family_presets.hpp"

#include <iterator>

namespace plumbline {
namespace {

struct PresetFile {
  const char* name;
  const char* config;
};

// clang-format off
constexpr PresetFile kPresetFiles[] = {
    {"bloom-560m",
     R"({"model_type":"bloom","n_layer":24,"hidden_size":1024,"n_head":16,"vocab_size":250880})"},
    {"bloom-1b1",
     R"({"model_type":"bloom","n_layer":24,"hidden_size":1536,"n_head":16,"vocab_size":250880})"},
    {"bloom-1b7",
     R"({"model_type":"bloom","n_layer":24,"hidden_size":2048,"n_head":16,"vocab_size":250880})"},
    {"bloom-3b",
     R"({"model_type":"bloom","n_layer":30,"hidden_size":2560,"n_head":32,"vocab_size":250880})"},
    {"bloom-7b1",
     R"({"model_type":"bloom","n_layer":30,"hidden_size":4096,"n_head":32,"vocab_size":250880})"},
    {"bloom-176b",
     R"({"model_type":"bloom","n_layer":70,"hidden_size":14336,"n_head":112,"vocab_size":250880})"},
    {"falcon-rw-1b",
     R"({"model_type":"falcon","num_hidden_layers":24,"hidden_size":2048,"num_attention_heads":32,)"
     R"("vocab_size":50304,"alibi":true,"bias":true,"multi_query":false,"parallel_attn":false})"},
    {"falcon-7b",
     R"({"model_type":"falcon","num_hidden_layers":32,"hidden_size":4544,"num_attention_heads":71,)"
     R"("vocab_size":65024,"tie_word_embeddings":false})"},
    {"falcon-40b",
     R"({"model_type":"falcon","num_hidden_layers":60,"hidden_size":8192,"num_attention_heads":128,)"
     R"("vocab_size":65024,"new_decoder_architecture":true,"num_kv_heads":8,)"
     R"("tie_word_embeddings":false})"},
    {"falcon-180b",
     R"({"model_type":"falcon","num_hidden_layers":80,"hidden_size":14848,"num_attention_heads":232,)"
     R"("vocab_size":65024,"new_decoder_architecture":true,"num_kv_heads":8,)"
     R"("tie_word_embeddings":false})"},
    {"baichuan-7b",
     R"({"model_type":"baichuan","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,)"
     R"("intermediate_size":11008,"vocab_size":64000,"max_position_embeddings":4096})"},
    {"baichuan-13b",
     R"({"model_type":"baichuan","num_hidden_layers":40,"hidden_size":5120,"num_attention_heads":40,)"
     R"("intermediate_size":13696,"vocab_size":64000,"model_max_length":4096})"},
    {"baichuan2-7b",
     R"({"model_type":"baichuan","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,)"
     R"("intermediate_size":11008,"vocab_size":125696,"max_position_embeddings":4096})"},
    {"baichuan2-13b",
     R"({"model_type":"baichuan","num_hidden_layers":40,"hidden_size":5120,"num_attention_heads":40,)"
     R"("intermediate_size":13696,"vocab_size":125696,"model_max_length":4096})"},
    {"chatglm-6b",
     R"({"model_type":"chatglm","num_layers":28,"hidden_size":4096,"num_attention_heads":32,)"
     R"("inner_hidden_size":16384,"vocab_size":130528,"max_sequence_length":2048,)"
     R"("position_encoding_2d":true})"},
    {"glm-10b",
     R"({"model_type":"glm","num_layers":48,"hidden_size":4096,"num_attention_heads":64,)"
     R"("vocab_size":50304,"max_sequence_length":1024,"block_position_encoding":true})"},
    {"glm-130b",
     R"({"model_type":"glm_130b","num_layers":70,"hidden_size":12288,"num_attention_heads":96,)"
     R"("inner_hidden_size":32768,"vocab_size":150528,"max_sequence_length":2048})"},
    {"chatglm2-6b",
     R"({"model_type":"chatglm","num_layers":28,"hidden_size":4096,"num_attention_heads":32,)"
     R"("ffn_hidden_size":13696,"multi_query_attention":true,"multi_query_group_num":2,)"
     R"("kv_channels":128,"add_qkv_bias":true,"padded_vocab_size":65024,"seq_length":32768})"},
    {"glm-4-9b",
     R"({"model_type":"chatglm","num_layers":40,"hidden_size":4096,"num_attention_heads":32,)"
     R"("ffn_hidden_size":13696,"multi_query_attention":true,"multi_query_group_num":2,)"
     R"("kv_channels":128,"add_qkv_bias":true,"padded_vocab_size":151552,"seq_length":131072,)"
     R"("rope_ratio":500})"},
    {"galactica-125m",
     R"({"model_type":"opt","num_hidden_layers":12,"hidden_size":768,"num_attention_heads":12,)"
     R"("ffn_dim":3072,"vocab_size":50000,"max_position_embeddings":2048,)"
     R"("activation_function":"gelu"})"},
    {"galactica-1.3b",
     R"({"model_type":"opt","num_hidden_layers":24,"hidden_size":2048,"num_attention_heads":32,)"
     R"("ffn_dim":8192,"vocab_size":50000,"max_position_embeddings":2048,)"
     R"("activation_function":"gelu"})"},
    {"galactica-6.7b",
     R"({"model_type":"opt","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,)"
     R"("ffn_dim":16384,"vocab_size":50000,"max_position_embeddings":2048,)"
     R"("activation_function":"gelu"})"},
    {"galactica-30b",
     R"({"model_type":"opt","num_hidden_layers":48,"hidden_size":7168,"num_attention_heads":56,)"
     R"("ffn_dim":28672,"vocab_size":50000,"max_position_embeddings":2048,)"
     R"("activation_function":"gelu"})"},
    {"galactica-120b",
     R"({"model_type":"opt","num_hidden_layers":96,"hidden_size":10240,"num_attention_heads":80,)"
     R"("ffn_dim":40960,"vocab_size":50000,"max_position_embeddings":2048,)"
     R"("activation_function":"gelu"})"},
    {"starcoder",
     R"({"model_type":"gpt_bigcode","n_layer":40,"n_embd":6144,"n_head":48,"vocab_size":49152,)"
     R"("n_positions":8192})"},
    {"starcoderbase-3b",
     R"({"model_type":"gpt_bigcode","n_layer":36,"n_embd":2816,"n_head":22,"vocab_size":49152,)"
     R"("n_positions":8192})"},
    {"starcoderbase-7b",
     R"({"model_type":"gpt_bigcode","n_layer":42,"n_embd":4096,"n_head":32,"vocab_size":49152,)"
     R"("n_positions":8192})"},
    {"santacoder",
     R"({"model_type":"gpt_bigcode","n_layer":24,"n_embd":2048,"n_head":16,"vocab_size":49280,)"
     R"("n_positions":2048})"},
    {"starcoder2-3b",
     R"({"model_type":"starcoder2","num_hidden_layers":30,"hidden_size":3072,)"
     R"("num_attention_heads":24,"num_key_value_heads":2,"intermediate_size":12288,)"
     R"("vocab_size":49152,"max_position_embeddings":16384,"sliding_window":4096,)"
     R"("tie_word_embeddings":true})"},
    {"starcoder2-7b",
     R"({"model_type":"starcoder2","num_hidden_layers":32,"hidden_size":4608,)"
     R"("num_attention_heads":36,"num_key_value_heads":4,"intermediate_size":18432,)"
     R"("vocab_size":49152,"max_position_embeddings":16384,"sliding_window":4096,)"
     R"("tie_word_embeddings":true})"},
    {"starcoder2-15b",
     R"({"model_type":"starcoder2","num_hidden_layers":40,"hidden_size":6144,)"
     R"("num_attention_heads":48,"num_key_value_heads":4,"intermediate_size":24576,)"
     R"("vocab_size":49152,"max_position_embeddings":16384,"sliding_window":4096,)"
     R"("tie_word_embeddings":false})"},
    {"phi-1.5",
     R"({"model_type":"phi","num_hidden_layers":24,"hidden_size":2048,"num_attention_heads":32,)"
     R"("intermediate_size":8192,"vocab_size":51200,"max_position_embeddings":2048,)"
     R"("partial_rotary_factor":0.5})"},
    {"phi-2",
     R"({"model_type":"phi","num_hidden_layers":32,"hidden_size":2560,"num_attention_heads":32,)"
     R"("intermediate_size":10240,"vocab_size":51200,"max_position_embeddings":2048,)"
     R"("partial_rotary_factor":0.4})"},
    {"phi-3-mini-4k",
     R"({"model_type":"phi3","num_hidden_layers":32,"hidden_size":3072,"num_attention_heads":32,)"
     R"("num_key_value_heads":32,"intermediate_size":8192,"vocab_size":32064,)"
     R"("max_position_embeddings":4096,"sliding_window":2047})"},
    {"gemma-2b",
     R"({"model_type":"gemma","num_hidden_layers":18,"hidden_size":2048,"num_attention_heads":8,)"
     R"("num_key_value_heads":1,"head_dim":256,"intermediate_size":16384,"vocab_size":256000,)"
     R"("max_position_embeddings":8192})"},
    {"gemma-7b",
     R"({"model_type":"gemma","num_hidden_layers":28,"hidden_size":3072,"num_attention_heads":16,)"
     R"("num_key_value_heads":16,"head_dim":256,"intermediate_size":24576,"vocab_size":256000,)"
     R"("max_position_embeddings":8192})"},
    {"mistral-7b",
     R"({"model_type":"mistral","num_hidden_layers":32,"hidden_size":4096,)"
     R"("num_attention_heads":32,"num_key_value_heads":8,"intermediate_size":14336,)"
     R"("vocab_size":32000,"max_position_embeddings":32768,"sliding_window":4096,)"
     R"("rms_norm_eps":1e-5})"},
    {"qwen3-0.6b",
     R"({"model_type":"qwen3","num_hidden_layers":28,"hidden_size":1024,"num_attention_heads":16,)"
     R"("num_key_value_heads":8,"head_dim":128,"intermediate_size":3072,"vocab_size":151936,)"
     R"("max_position_embeddings":40960,"rope_theta":1000000,"tie_word_embeddings":true})"},
    {"qwen3-1.7b",
     R"({"model_type":"qwen3","num_hidden_layers":28,"hidden_size":2048,"num_attention_heads":16,)"
     R"("num_key_value_heads":8,"head_dim":128,"intermediate_size":6144,"vocab_size":151936,)"
     R"("max_position_embeddings":40960,"rope_theta":1000000,"tie_word_embeddings":true})"},
    {"qwen3-4b",
     R"({"model_type":"qwen3","num_hidden_layers":36,"hidden_size":2560,"num_attention_heads":32,)"
     R"("num_key_value_heads":8,"head_dim":128,"intermediate_size":9728,"vocab_size":151936,)"
     R"("max_position_embeddings":40960,"rope_theta":1000000,"tie_word_embeddings":true})"},
    {"qwen3-8b",
     R"({"model_type":"qwen3","num_hidden_layers":36,"hidden_size":4096,"num_attention_heads":32,)"
     R"("num_key_value_heads":8,"head_dim":128,"intermediate_size":12288,"vocab_size":151936,)"
     R"("max_position_embeddings":40960,"rope_theta":1000000,"tie_word_embeddings":false})"},
    {"qwen3-14b",
     R"({"model_type":"qwen3","num_hidden_layers":40,"hidden_size":5120,"num_attention_heads":40,)"
     R"("num_key_value_heads":8,"head_dim":128,"intermediate_size":17408,"vocab_size":151936,)"
     R"("max_position_embeddings":40960,"rope_theta":1000000,"tie_word_embeddings":false})"},
    {"qwen3-32b",
     R"({"model_type":"qwen3","num_hidden_layers":64,"hidden_size":5120,"num_attention_heads":64,)"
     R"("num_key_value_heads":8,"head_dim":128,"intermediate_size":25600,"vocab_size":151936,)"
     R"("max_position_embeddings":40960,"rope_theta":1000000,"tie_word_embeddings":false})"},
    {"mixtral-8x7b",
     R"({"model_type":"mixtral","num_hidden_layers":32,"hidden_size":4096,"num_attention_heads":32,)"
     R"("num_key_value_heads":8,"intermediate_size":14336,"vocab_size":32000,)"
     R"("max_position_embeddings":32768,"rope_theta":1000000,"num_local_experts":8,)"
     R"("num_experts_per_tok":2})"},
    {"mixtral-8x22b",
     R"({"model_type":"mixtral","num_hidden_layers":56,"hidden_size":6144,"num_attention_heads":48,)"
     R"("num_key_value_heads":8,"intermediate_size":16384,"vocab_size":32000,)"
     R"("max_position_embeddings":65536,"rope_theta":1000000,"num_local_experts":8,)"
     R"("num_experts_per_tok":2})"},
    {"qwen1.5-moe-a2.7b",
     R"({"model_type":"qwen2_moe","num_hidden_layers":24,"hidden_size":2048,"num_attention_heads":16,)"
     R"("num_key_value_heads":16,"moe_intermediate_size":1408,"shared_expert_intermediate_size":5632,)"
     R"("vocab_size":151936,"max_position_embeddings":8192,"rope_theta":1000000,"num_experts":60,)"
     R"("num_experts_per_tok":4})"},
    {"qwen2-57b-a14b",
     R"({"model_type":"qwen2_moe","num_hidden_layers":28,"hidden_size":3584,"num_attention_heads":28,)"
     R"("num_key_value_heads":4,"moe_intermediate_size":2560,"shared_expert_intermediate_size":20480,)"
     R"("vocab_size":151936,"max_position_embeddings":131072,"rope_theta":1000000,"num_experts":64,)"
     R"("num_experts_per_tok":8})"},
    {"qwen3-30b-a3b",
     R"({"model_type":"qwen3_moe","num_hidden_layers":48,"hidden_size":2048,"num_attention_heads":32,)"
     R"("num_key_value_heads":4,"head_dim":128,"moe_intermediate_size":768,"vocab_size":151936,)"
     R"("max_position_embeddings":40960,"rope_theta":1000000,"num_experts":128,)"
     R"("num_experts_per_tok":8,"norm_topk_prob":true})"},
    {"qwen3-235b-a22b",
     R"({"model_type":"qwen3_moe","num_hidden_layers":94,"hidden_size":4096,"num_attention_heads":64,)"
     R"("num_key_value_heads":4,"head_dim":128,"moe_intermediate_size":1536,"vocab_size":151936,)"
     R"("max_position_embeddings":40960,"rope_theta":1000000,"num_experts":128,)"
     R"("num_experts_per_tok":8,"norm_topk_prob":true})"},
    // Without the scaling of positions (yarn) that extended the first model to 163840 positions after its
    // pretraining.
    {"deepseek-v3",
     R"({"model_type":"deepseek_v3","num_hidden_layers":61,"hidden_size":7168,)"
     R"("num_attention_heads":128,"num_key_value_heads":128,"q_lora_rank":1536,"kv_lora_rank":512,)"
     R"("qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"first_k_dense_replace":3,)"
     R"("intermediate_size":18432,"moe_intermediate_size":2048,"n_routed_experts":256,)"
     R"("n_shared_experts":1,"num_experts_per_tok":8,"norm_topk_prob":true,"n_group":8,"topk_group":4,)"
     R"("routed_scaling_factor":2.5,"vocab_size":129280,"max_position_embeddings":163840})"},
    {"kimi-k2",
     R"({"model_type":"deepseek_v3","num_hidden_layers":61,"hidden_size":7168,)"
     R"("num_attention_heads":64,"num_key_value_heads":64,"q_lora_rank":1536,"kv_lora_rank":512,)"
     R"("qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"first_k_dense_replace":1,)"
     R"("intermediate_size":18432,"moe_intermediate_size":2048,"n_routed_experts":384,)"
     R"("n_shared_experts":1,"num_experts_per_tok":8,"norm_topk_prob":true,"n_group":1,"topk_group":1,)"
     R"("routed_scaling_factor":2.827,"vocab_size":163840,"max_position_embeddings":131072,)"
     R"("rope_theta":50000})"},
    {"llama-3.2-1b",
     R"({"model_type":"llama","num_hidden_layers":16,"hidden_size":2048,"num_attention_heads":32,)"
     R"("num_key_value_heads":8,"head_dim":64,"intermediate_size":8192,"vocab_size":128256,)"
     R"("max_position_embeddings":131072,"rope_theta":500000,"rms_norm_eps":1e-5,)"
     R"("tie_word_embeddings":true,"rope_scaling":{"rope_type":"llama3","factor":32.0,)"
     R"("low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}})"},
    {"llama-3.2-3b",
     R"({"model_type":"llama","num_hidden_layers":28,"hidden_size":3072,"num_attention_heads":24,)"
     R"("num_key_value_heads":8,"head_dim":128,"intermediate_size":8192,"vocab_size":128256,)"
     R"("max_position_embeddings":131072,"rope_theta":500000,"rms_norm_eps":1e-5,)"
     R"("tie_word_embeddings":true,"rope_scaling":{"rope_type":"llama3","factor":32.0,)"
     R"("low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}})"},
    {"deepseek-v2-lite",
     R"({"model_type":"deepseek_v2","num_hidden_layers":27,"hidden_size":2048,)"
     R"("num_attention_heads":16,"num_key_value_heads":16,"q_lora_rank":null,"kv_lora_rank":512,)"
     R"("qk_nope_head_dim":128,"qk_rope_head_dim":64,"v_head_dim":128,"first_k_dense_replace":1,)"
     R"("intermediate_size":10944,"moe_intermediate_size":1408,"n_routed_experts":64,)"
     R"("n_shared_experts":2,"num_experts_per_tok":6,"norm_topk_prob":false,"vocab_size":102400,)"
     R"("max_position_embeddings":163840})"},
    // The text model of gemma-3.
    {"gemma-3-1b",
     R"({"model_type":"gemma3_text","num_hidden_layers":26,"hidden_size":1152,"num_attention_heads":4,)"
     R"("num_key_value_heads":1,"head_dim":256,"intermediate_size":6912,"vocab_size":262144,)"
     R"("max_position_embeddings":32768,"sliding_window":512})"},
    {"gemma-3-4b",
     R"({"model_type":"gemma3_text","num_hidden_layers":34,"hidden_size":2560,"num_attention_heads":8,)"
     R"("num_key_value_heads":4,"head_dim":256,"intermediate_size":10240,"vocab_size":262208,)"
     R"("max_position_embeddings":131072,"sliding_window":1024,)"
     R"("rope_scaling":{"rope_type":"linear","factor":8.0}})"},
    {"gemma-3-12b",
     R"({"model_type":"gemma3_text","num_hidden_layers":48,"hidden_size":3840,"num_attention_heads":16,)"
     R"("num_key_value_heads":8,"head_dim":256,"intermediate_size":15360,"vocab_size":262208,)"
     R"("max_position_embeddings":131072,"sliding_window":1024,)"
     R"("rope_scaling":{"rope_type":"linear","factor":8.0}})"},
    {"gemma-3-27b",
     R"({"model_type":"gemma3_text","num_hidden_layers":62,"hidden_size":5376,"num_attention_heads":32,)"
     R"("num_key_value_heads":16,"head_dim":128,"intermediate_size":21504,"vocab_size":262208,)"
     R"("max_position_embeddings":131072,"sliding_window":1024,"query_pre_attn_scalar":168,)"
     R"("rope_scaling":{"rope_type":"linear","factor":8.0}})"},
    {"gpt-oss-20b",
     R"({"model_type":"gpt_oss","num_hidden_layers":24,"hidden_size":2880,"num_attention_heads":64,)"
     R"("num_key_value_heads":8,"head_dim":64,"intermediate_size":2880,"vocab_size":201088,)"
     R"("max_position_embeddings":131072,"sliding_window":128,"num_local_experts":32,)"
     R"("num_experts_per_tok":4,"rope_scaling":{"rope_type":"yarn","factor":32.0,"beta_fast":32.0,)"
     R"("beta_slow":1.0,"original_max_position_embeddings":4096,"truncate":false}})"},
    {"gpt-oss-120b",
     R"({"model_type":"gpt_oss","num_hidden_layers":36,"hidden_size":2880,"num_attention_heads":64,)"
     R"("num_key_value_heads":8,"head_dim":64,"intermediate_size":2880,"vocab_size":201088,)"
     R"("max_position_embeddings":131072,"sliding_window":128,"num_local_experts":128,)"
     R"("num_experts_per_tok":4,"rope_scaling":{"rope_type":"yarn","factor":32.0,"beta_fast":32.0,)"
     R"("beta_slow":1.0,"original_max_position_embeddings":4096,"truncate":false}})"},
    {"gpt3-175b-mlperf",
     R"({"model_type":"gpt2","n_layer":96,"n_embd":12288,"n_head":96,"vocab_size":51200,)"
     R"("n_positions":2048})"},
};
// clang-format on

}  // namespace

std::vector<ModelConfig> family_presets() {
  std::vector<ModelConfig> presets;
  presets.reserve(std::size(kPresetFiles));
  for (const PresetFile& file : kPresetFiles) {
    presets.push_back(parse_model_config(file.config, file.name));
  }
  return presets;
}

}  // namespace plumbline
