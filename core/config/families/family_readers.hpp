// The parts of kFamilies (families.cpp) that are code: fields of only one family's config.json.
#pragma once

#include "core/base/json_keys.hpp"
#include "core/config/model_config.hpp"

namespace plumbline {

// Called after sizes, activation and rotary embeddings (read_family). `with_nulls` tells a null from a
// missing key. Throw InputError for unsupported values.
void read_windows(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_biases(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_gpt2(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_gpt_bigcode(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_qwen3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_mixtral(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_qwen2_moe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_qwen3_moe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_deepseek_v3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_glm4_moe(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_starcoder2(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_gemma(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_bloom(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_falcon(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_opt(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_glm(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_phi(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_phi3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_chatglm(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_baichuan(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_chatglm_6b(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_glm_130b(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void read_glm_10b(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);

// The keys from which those read the same.
void write_windows(const ModelConfig& config, Json& out);
void write_biases(const ModelConfig& config, Json& out);
void write_qwen3(const ModelConfig& config, Json& out);
void write_gemma(const ModelConfig& config, Json& out);
void write_mixtral(const ModelConfig& config, Json& out);
void write_qwen2_moe(const ModelConfig& config, Json& out);
void write_qwen3_moe(const ModelConfig& config, Json& out);
void write_deepseek_v3(const ModelConfig& config, Json& out);
void write_glm4_moe(const ModelConfig& config, Json& out);
void write_gpt_bigcode(const ModelConfig& config, Json& out);
void write_falcon(const ModelConfig& config, Json& out);
void write_opt(const ModelConfig& config, Json& out);
void write_glm(const ModelConfig& config, Json& out);
void write_chatglm(const ModelConfig& config, Json& out);
void write_baichuan(const ModelConfig& config, Json& out);
void write_chatglm_6b(const ModelConfig& config, Json& out);
void write_glm_10b(const ModelConfig& config, Json& out);

/// Biases of attention's four projections, and of the MLP's.
void set_biases(bool attention, bool mlp, ModelConfig& config);

}  // namespace plumbline
