// Tensor names of the families' checkpoints, and the layout of fused tensors. A family is a row of the table.
#pragma once

#include <string_view>

#include "core/config/model_config.hpp"

namespace plumbline {

/// Order of queries, keys and values in one tensor: all queries, all keys, all values; or for every key/value
/// head its queries, key and value.
enum class FusedQkv { none, stacked, per_group };

/// Norms of a layer.
struct NormNames {
  std::string_view norm1 = "input_layernorm";
  std::string_view norm2 = "post_attention_layernorm";
  std::string_view attention_result = "post_attention_layernorm";
  std::string_view mlp_result = "post_feedforward_layernorm";
  std::string_view parallel1 = "";  // where both norms read the layer's input; empty: as norm1
  std::string_view parallel2 = "";
};

struct AttentionNames {
  FusedQkv fused = FusedQkv::none;
  std::string_view query = "self_attn.q_proj";  // or queries, keys and values fused
  std::string_view key = "self_attn.k_proj";
  std::string_view value = "self_attn.v_proj";
  std::string_view query_norm = "self_attn.q_norm";
  std::string_view key_norm = "self_attn.k_norm";
  std::string_view projection = "self_attn.o_proj";
};

/// Latent attention, in place of query, key and value.
struct LatentNames {
  std::string_view query_down = "self_attn.q_a_proj";
  std::string_view query_down_norm = "self_attn.q_a_layernorm";
  std::string_view query_up = "self_attn.q_b_proj";
  std::string_view kv_down = "self_attn.kv_a_proj_with_mqa";
  std::string_view kv_down_norm = "self_attn.kv_a_layernorm";
  std::string_view kv_up = "self_attn.kv_b_proj";
};

struct FeedForwardNames {
  std::string_view fc1 = "mlp.gate_proj";  // or gate and up fused, in this order unless up_first
  std::string_view up = "mlp.up_proj";     // empty: no gate, or fused
  std::string_view fc2 = "mlp.down_proj";
  bool up_first = false;
};

/// MoE layers: "<layer>.<experts>.<n>.<name>".
struct MixtureNames {
  std::string_view router = "mlp.gate";
  std::string_view expert_bias = "mlp.gate.e_score_correction_bias";  // with nothing behind it
  bool expert_bias_row = false;                                       // stored as (1, experts)
  std::string_view experts = "mlp.experts";
  std::string_view gate = "gate_proj";
  std::string_view up = "up_proj";
  std::string_view down = "down_proj";
  std::string_view shared = "mlp.shared_expert";  // with the names of an expert's tensors
  std::string_view shared_gate = "mlp.shared_expert_gate";
};

/// Without ".weight" and ".bias". Empty: the family has no such tensor.
struct TensorNames {
  std::string_view architecture;
  std::string_view embedding = "model.embed_tokens";
  std::string_view positions = "";
  std::string_view block_positions = "";  // the second table of learned positions
  std::string_view embedding_norm = "";
  std::string_view layers = "model.layers";  // of its layers, "model.layers.<n>.<name>"
  NormNames norms{};
  AttentionNames attention{};
  LatentNames latent{};
  FeedForwardNames mlp{};
  MixtureNames mixture{};
  std::string_view final_norm = "model.norm";
  std::string_view output = "lm_head";
  bool transposed = false;  // linear layers are stored (in, out)
};

/// Scalar head, as of transformers' models for sequence classification.
constexpr std::string_view kScalarHead = "score";

/// Names of the model's architecture. Throws Error when there is none.
const TensorNames& tensor_names(const ModelConfig& model);

}  // namespace plumbline
