// Columns of a published table besides the configuration keys (core/config_text/config_keys.cpp), which take
// precedence: a column that becomes a key gets the key's meaning.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace plumbline {

/// Keys of a model's config.json, and Megatron-LM's where config.json has none.
inline constexpr std::array<std::string_view, 35> kModelColumns = {"model_type",
                                                                   "num_hidden_layers",
                                                                   "hidden_size",
                                                                   "num_attention_heads",
                                                                   "num_key_value_heads",
                                                                   "head_dim",
                                                                   "intermediate_size",
                                                                   "vocab_size",
                                                                   "max_position_embeddings",
                                                                   "tie_word_embeddings",
                                                                   "attention_bias",
                                                                   "mlp_bias",
                                                                   "sliding_window",
                                                                   "hidden_act",
                                                                   "position_embedding_type",
                                                                   "normalization",
                                                                   "swiglu",
                                                                   "squared_relu",
                                                                   "rotary_percent",
                                                                   "qk_layernorm",
                                                                   "add_bias_linear",
                                                                   "window_size",
                                                                   "window_attn_skip_freq",
                                                                   "num_experts",
                                                                   "moe_router_topk",
                                                                   "moe_ffn_hidden_size",
                                                                   "moe_shared_expert_intermediate_size",
                                                                   "moe_layer_freq",
                                                                   "multi_latent_attention",
                                                                   "q_lora_rank",
                                                                   "kv_lora_rank",
                                                                   "qk_head_dim",
                                                                   "qk_pos_emb_head_dim",
                                                                   "v_head_dim",
                                                                   "mtp_num_layers"};

/// MoE and latent attention, Megatron-LM's keys: "unstated" where a source names the model without them.
inline constexpr std::array<std::string_view, 6> kMixtureColumns = {
    "num_experts",    "moe_router_topk",       "moe_ffn_hidden_size", "moe_shared_expert_intermediate_size",
    "moe_layer_freq", "multi_latent_attention"};

/// Columns that sources give instead of a configuration key: micro-batches per replica and step instead of
/// global_batch_size, and the layers' layout on the pipeline.
inline constexpr std::array<std::string_view, 4> kLayoutColumns = {
    "num_microbatches", "num_layers_per_virtual_pipeline_stage", "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split"};

inline constexpr std::array<std::string_view, 12> kMeasuredColumns = {"step_s",
                                                                      "tokens_per_s",
                                                                      "tokens_per_s_per_gpu",
                                                                      "samples_per_s",
                                                                      "samples_per_s_per_gpu",
                                                                      "model_tflops_per_gpu",
                                                                      "mfu",
                                                                      "mfu_percent",
                                                                      "peak_bytes",
                                                                      "peak_mib",
                                                                      "peak_gib",
                                                                      "peak_gb"};
/// Meaning of the measured values: FLOPs and peak behind TFLOP/s and MFU, the rank of a memory figure.
inline constexpr std::array<std::string_view, 3> kMeaningColumns = {"flops", "peak_tflops", "memory"};
inline constexpr std::array<std::string_view, 4> kTextColumns = {"label", "sweep", "source", "note"};

/// A feature that is not modelled yet, by its key in Megatron-LM, and the value that means "without it". A
/// part of another feature (`part_of`) is not counted separately.
struct FeatureColumn {
  std::string_view key;
  std::string_view without;
  std::string_view part_of{};
  bool own_step = false;  // a configuration key too, of plumbline's own step alone
};
inline constexpr std::array<FeatureColumn, 18> kFeatureColumns = {{
    {"moe_expert_capacity_factor", "", "num_experts"},
    {"moe_pad_expert_input_to_capacity", "false", "num_experts"},
    {"moe_router_load_balancing_type", "", "num_experts", true},
    {"moe_router_force_load_balancing", "false", "num_experts"},
    {"moe_shared_expert_overlap", "false", "", true},
    {"zero_hpz_partition_size", "1", "", true},
    {"use_megatron_fsdp", "false"},
    {"activation_offload", "none"},
    {"optimizer_offload_fraction", "0"},
    {"apply_query_key_layer_scaling", "false"},
    {"parallel_block", "false"},
    {"hybrid_layer_pattern", "none"},
    {"defer_embedding_wgrad_compute", "false", "", true},
    {"attention_softmax_in_fp32", "false"},
    {"gradient_accumulation_fusion", "true"},
    {"deterministic_mode", "false", "", true},
    {"pipeline_model_parallel_layout", "none"},
    {"other_flags", ""},
}};

/// Values that runs have and this build's configuration keys do not know.
struct ComingValue {
  std::string_view key;
  std::string_view value;
};
inline constexpr std::array<ComingValue, 4> kComingValues = {
    {{"fp8_recipe", "unstated"}, {"fp8_recipe", "rowwise"}, {"precision", "nvfp4"}, {"optimizer", "lamb"}}};

template <std::size_t N>
constexpr bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr const FeatureColumn* find_feature_column(std::string_view name) {
  for (const FeatureColumn& feature : kFeatureColumns) {
    if (feature.key == name) return &feature;
  }
  return nullptr;
}

}  // namespace plumbline
