// Mixtures of experts and latent attention of a published run, by Megatron-LM's keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "analysis/published/dialect/table_header.hpp"
#include "core/config/model_config.hpp"

namespace plumbline {

/// True if put_experts reads the column.
bool is_experts_column(std::string_view column);

/// Columns of a row's MoE or latent attention that cannot be modelled: "unstated" ones, and a capacity other
/// than that of an even load.
std::vector<std::string> unmodelled_experts(const Cells& cells);

/// Applies the MoE columns to the model: num_experts of moe_ffn_hidden_size (without it intermediate_size),
/// moe_router_topk of them for a token, moe_shared_expert_intermediate_size; with moe_layer_freq
/// ([0]*d+[1]*m) the first d layers are of intermediate_size. With multi_latent_attention the widths
/// q_lora_rank (0: none), kv_lora_rank, qk_head_dim, qk_pos_emb_head_dim and v_head_dim. mtp_num_layers: MTP
/// modules. Throws InputError with `origin`.
void put_experts(const Cells& cells, const std::string& origin, ModelConfig& model);

}  // namespace plumbline
