#include "core/launch_files/megatron/model/megatron_model.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/launch_files/megatron/model/megatron_hybrid.hpp"
#include "core/launch_files/megatron/model/megatron_mixture.hpp"
#include "core/launch_files/megatron/model/megatron_shape.hpp"
#include "core/launch_files/megatron/model/megatron_vocabulary.hpp"

namespace plumbline {
namespace {

Json gpt2(const LaunchArguments& from, const MegatronShape& shape, double epsilon) {
  Json json;
  const bool one_head = shape.kv_heads == 1 && shape.heads > 1;
  if (shape.kv_heads != shape.heads && !one_head)
    refuse_layers(from, shape, "--num-query-groups", "1 or as many as attention heads with these layers");
  if (shape.head_dim * shape.heads != shape.hidden)
    refuse_layers(from, shape, "--kv-channels",
                  fmt::format("{} with these layers", shape.hidden / shape.heads));
  if (!shape.bias || shape.qk_norm || shape.activation != "gelu_new") refuse_layers(from, shape);
  json["model_type"] = one_head ? "gpt_bigcode" : "gpt2";
  if (one_head) json["multi_query"] = true;
  json["n_layer"] = shape.layers;
  json["n_embd"] = shape.hidden;
  json["n_head"] = shape.heads;
  json["n_inner"] = shape.ffn;
  json["activation_function"] = shape.activation;
  json["n_positions"] = max_positions(from, shape);
  json["tie_word_embeddings"] = !from.on("--untie-embeddings-and-output-weights");
  json["layer_norm_epsilon"] = epsilon;
  json["initializer_range"] = from.number("--init-method-std", 0.02);
  return json;
}

Json dense(const LaunchArguments& from, const MegatronShape& shape) {
  const double epsilon = from.number("--norm-epsilon", 1e-5);
  const double rotated = from.number("--rotary-percent", 1);
  if (!shape.rms && !shape.rope) return gpt2(from, shape, epsilon);
  Json json;
  put_common(from, shape, json);
  if (!shape.rope) refuse_layers(from, shape);
  if (!shape.rms) {
    if (shape.activation == "silu" && !shape.qk_norm && !shape.bias) {
      json["model_type"] = "stablelm";
      json["layer_norm_eps"] = epsilon;
      json["partial_rotary_factor"] = rotated;
      json["use_qkv_bias"] = shape.qkv_bias;
      return json;
    }
    if (shape.activation == "silu" || shape.qk_norm || shape.qkv_bias != shape.bias)
      refuse_layers(from, shape);
    json["model_type"] = "nemotron";
    json["norm_eps"] = epsilon;
    json["partial_rotary_factor"] = rotated;
    json["attention_bias"] = json["mlp_bias"] = shape.bias;
    return json;
  }
  if (shape.activation != "silu") refuse_layers(from, shape);
  json["rms_norm_eps"] = epsilon;
  if (shape.qk_norm) {
    if (shape.qkv_bias || rotated != 1) refuse_layers(from, shape);
    json["model_type"] = "qwen3";
  } else if (rotated != 1) {
    if (shape.bias) refuse_layers(from, shape);
    json["model_type"] = "glm";
    json["attention_bias"] = shape.qkv_bias;
    json["partial_rotary_factor"] = rotated;
  } else if (from.has("--window-size")) {
    if (shape.qkv_bias || from.find("--window-size")->values.empty()) refuse_layers(from, shape);
    json["model_type"] = "mistral";
    json["sliding_window"] = window_of(from);
  } else if (shape.bias) {
    json["model_type"] = "llama";
    json["attention_bias"] = json["mlp_bias"] = true;
  } else {
    json["model_type"] = shape.qkv_bias ? "qwen2" : "llama";
  }
  return json;
}

/// Megatron-LM takes --num-query-groups with its switch alone; 1 is the default, which logs print.
void note_unused_groups(const LaunchArguments& from, const MegatronShape& shape) {
  const char* const groups = "--num-query-groups";
  const std::string given = from.text(groups, "None");
  if (shape.kv_heads != shape.heads || given == "None" || given == "1" ||
      given == fmt::format("{}", shape.heads))
    return;
  from.file().notes.push_back(
      fmt::format("{}: found {} without --group-query-attention, without effect: {} heads of keys are taken",
                  from.origin(groups), given, shape.heads));
}

}  // namespace

std::string megatron_model(LaunchArguments& arguments, const MegatronDialect& dialect) {
  MegatronShape shape = shape_of(arguments, dialect);
  note_unused_groups(arguments, shape);
  const bool usual = becomes_usual(shape);
  note_hybrid(arguments, shape, usual);
  if (!shape.pattern.empty() && !usual) {
    Json json = hybrid_of(arguments, shape);
    set_megatron_vocabulary(arguments, json);
    return json.dump();
  }
  if (usual && !shape.rope && arguments.text("--position-embedding-type", "") == "none")
    arguments.refuse("--position-embedding-type", "rope or learned_absolute with attention in every layer");
  const bool experts = arguments.has("--num-experts") && arguments.text("--num-experts", "") != "None" &&
                       (!usual || shape.pattern[1] == 'E');
  if (!experts && arguments.on("--multi-latent-attention"))
    arguments.refuse_with("--multi-latent-attention", "no experts", "--num-experts");
  const bool oss = is_gpt_oss(arguments, shape, experts);
  if (!oss) refuse_parts_of_gpt_oss(arguments);
  Json json = oss       ? gpt_oss(arguments, shape)
              : experts ? mixture_of(arguments, shape)
                        : dense(arguments, shape);
  set_megatron_vocabulary(arguments, json);
  return json.dump();
}

}  // namespace plumbline
