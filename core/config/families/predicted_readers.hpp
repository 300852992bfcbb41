// Readers of recent families (recent_families.cpp) and of those that are only predicted
// (predicted_families.cpp), as in family_readers.hpp.
#pragma once

#include <vector>

#include "core/base/json_keys.hpp"
#include "core/config/model_config.hpp"

namespace plumbline {

void read_gemma2(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_gemma3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_olmo(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_olmo3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_exaone4(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_smollm3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_seed_oss(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_apertus(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_granite(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_cohere(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_cohere2(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_hunyuan_dense(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_ernie(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_ministral(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_minicpm(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_minicpm3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_internlm2(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_stablelm(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_gpt_neox(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void write_gpt_neox(const ModelConfig& config, Json& out);
void read_dots1(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_minimax_m2(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_gpt_oss(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_llama4(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_ernie_moe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_hunyuan_moe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_olmoe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_phimoe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_granite_moe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_granite_hybrid(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
/// hybrid_readers.cpp: read_granite_mamba reads which layers have Mamba mixers, if any.
void read_granite_mamba(const JsonKeys& keys, ModelConfig& config);
void read_nemotron_h(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void write_nemotron_h(const ModelConfig& config, Json& out);
void read_dbrx(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_deepseek_v2(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);

/// no_rope_layers, 0 for a layer without rotary embeddings; empty or missing: every no_rope_layer_interval-th
/// layer has none. True for those that have them.
std::vector<bool> read_rope_layers(const JsonKeys& keys, const ModelConfig& config);
/// Keys of latent attention, and experts and routing of DeepSeek's kind; mixture_readers.cpp.
void read_latent_attention(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_experts(const JsonKeys& keys, const char* names, ModelConfig& config);
void read_groups(const JsonKeys& keys, Mixture& mixture);
void read_deepseek_experts(const JsonKeys& keys, ModelConfig& config);
/// decoder_sparse_step and mlp_only_layers.
void read_sparse_layers(const JsonKeys& keys, ModelConfig& config);
/// `experts`: layers that have them; the others are `dense_ffn` wide.
void put_experts_in_layers(std::vector<bool> experts, std::int64_t dense_ffn, ModelConfig& config);

}  // namespace plumbline
