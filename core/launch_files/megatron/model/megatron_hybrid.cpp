#include "core/launch_files/megatron/model/megatron_hybrid.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace plumbline {
namespace {

constexpr const char* kMixerFlags[] = {"--mamba-head-dim", "--mamba-num-groups", "--mamba-num-heads",
                                       "--mamba-state-dim"};

void put_experts(const LaunchArguments& from, const MegatronShape& shape, Json& json) {
  if (from.text("--moe-router-score-function", "softmax") != "sigmoid")
    from.refuse("--moe-router-score-function", "sigmoid with experts in a hybrid pattern");
  const std::int64_t ffn = from.integer("--moe-ffn-hidden-size", 0);
  const std::int64_t shared = from.integer("--moe-shared-expert-intermediate-size", 0);
  const double scale = from.number("--moe-router-topk-scaling-factor", 0);
  json["moe_intermediate_size"] = ffn == 0 ? shape.ffn : ffn;
  json["n_routed_experts"] = needed(from, "--num-experts");
  json["num_experts_per_tok"] = from.integer("--moe-router-topk", 2);
  json["n_shared_experts"] = shared > 0 ? 1 : 0;
  if (shared > 0) json["moe_shared_expert_intermediate_size"] = shared;
  json["routed_scaling_factor"] = scale == 0 ? 1.0 : scale;
  json["n_group"] = std::max<std::int64_t>(1, from.integer("--moe-router-num-groups", 1));
  json["topk_group"] = std::max<std::int64_t>(1, from.integer("--moe-router-group-topk", 1));
}

/// Lengths of the pieces between bars.
std::vector<std::int64_t> stages_of(const LaunchArguments& from, bool usual) {
  std::vector<std::int64_t> stages;
  std::istringstream pattern(from.text(kHybridPattern, ""));
  for (std::string piece; std::getline(pattern, piece, '|');) {
    if (usual && piece.size() % 2 != 0) from.refuse(kHybridPattern, "stages that end behind an MLP");
    stages.push_back(std::ssize(piece) / (usual ? 2 : 1));
  }
  return stages;
}

}  // namespace

bool becomes_usual(MegatronShape& shape) {
  const std::string& pattern = shape.pattern;
  if (pattern.size() < 2 || pattern.size() % 2 != 0) return false;
  const char block = pattern[1];
  for (std::size_t layer = 0; layer < pattern.size(); layer += 2)
    if (pattern[layer] != '*' || pattern[layer + 1] != block) return false;
  if (block != '-' && block != 'E') return false;
  shape.layers = std::ssize(pattern) / 2;
  return true;
}

Json hybrid_of(LaunchArguments& from, const MegatronShape& shape) {
  const bool known = shape.activation == "relu2" || shape.activation == "gelu_new";
  if (!shape.rms || shape.bias || shape.qkv_bias || shape.qk_norm || !known)
    refuse_layers(from, shape, kHybridPattern,
                  "RMSNorm, gelu or squared relu, no biases and no norms of queries with these layers");
  if (shape.pattern.find('M') == std::string::npos)
    from.refuse(kHybridPattern, "a Mamba mixer, or an MLP or experts behind every attention layer");
  Json json;
  json["model_type"] = "nemotron_h";
  json["num_hidden_layers"] = shape.layers;
  json["hybrid_override_pattern"] = shape.pattern;
  json["hidden_size"] = shape.hidden;
  json["num_attention_heads"] = shape.heads;
  json["num_key_value_heads"] = shape.kv_heads;
  json["head_dim"] = shape.head_dim;
  json["intermediate_size"] = shape.ffn;
  json["mlp_hidden_act"] = shape.activation;
  json["layer_norm_epsilon"] = from.number("--norm-epsilon", 1e-5);
  json["max_position_embeddings"] =
      needed(from, from.has("--max-position-embeddings") ? "--max-position-embeddings" : "--seq-length");
  json["tie_word_embeddings"] = !from.on("--untie-embeddings-and-output-weights");
  json["initializer_range"] = from.number("--init-method-std", 0.02);
  // Defaults of Megatron-Core's TransformerConfig, and twice the width where the heads are not given.
  const std::int64_t head = from.integer("--mamba-head-dim", 64);
  const std::int64_t heads = from.text("--mamba-num-heads", "None") == "None"
                                 ? 2 * shape.hidden / std::max<std::int64_t>(1, head)
                                 : from.integer("--mamba-num-heads", 0);
  json["mamba_head_dim"] = head;
  json["mamba_num_heads"] = heads;
  json["n_groups"] = from.integer("--mamba-num-groups", 8);
  json["ssm_state_size"] = from.integer("--mamba-state-dim", 128);
  if (shape.pattern.find('E') != std::string::npos) put_experts(from, shape, json);
  if (shape.rope)
    from.file().notes.push_back(fmt::format("{}: rotary embeddings of its attention layers are left out",
                                            from.origin(kHybridPattern)));
  return json;
}

void note_hybrid(LaunchArguments& from, const MegatronShape& shape, bool usual) {
  for (const char* flag : kMixerFlags)
    if (from.has(flag) && shape.pattern.find('M') == std::string::npos)
      from.without_effect(flag, "there is no Mamba mixer");
  if (shape.pattern.empty()) return;
  const std::vector<std::int64_t> stages = stages_of(from, usual);
  if (stages.size() == 1) return;
  if (std::ssize(stages) != from.integer("--pipeline-model-parallel-size", 1))
    from.refuse(kHybridPattern, "as many stages as --pipeline-model-parallel-size");
  from.set("layer_distribution", fmt::format("{}", fmt::join(stages, ",")), kHybridPattern);
}

}  // namespace plumbline
