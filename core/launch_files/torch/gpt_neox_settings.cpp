#include "core/launch_files/torch/gpt_neox_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/torch/deepspeed_settings.hpp"

namespace plumbline {
namespace {

std::string neox_spelling(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// ParallelMLP of megatron/model/transformer.py: gated layers have two thirds, both halves in multiples.
std::int64_t neox_width(const LaunchArguments& from, bool gated) {
  const std::int64_t hidden = from.integer("hidden_size", 0);
  const std::int64_t given = from.integer("intermediate_size", 4 * hidden);
  const std::int64_t multiple = std::max<std::int64_t>(1, from.integer("mlp_multiple_of", 1));
  const std::int64_t width = gated ? given * 2 / 3 / 2 : given;
  return (width + multiple - 1) / multiple * multiple;
}

bool is_off(const LaunchArguments& from, const char* name) {
  return from.has(name) && !from.on(name);
}

void set_neox_model(LaunchArguments& from) {
  const std::string norm = from.text("norm", "layernorm");
  const std::string activation = from.text("activation", "gelu");
  if (!from.has("pos_emb")) from.refuse_with("num_layers", "learned positions", "pos_emb: rotary");
  if (from.text("pos_emb", "") != "rotary") from.refuse("pos_emb", "rotary");
  const bool llama = norm == "rmsnorm";
  if (!llama && norm != "layernorm") from.refuse("norm", "layernorm or rmsnorm");
  if (llama ? activation != "swiglu" && activation != "silu" : activation != "gelu")
    from.refuse("activation", llama ? "swiglu with rmsnorm" : "gelu with layernorm");
  if (activation == "silu") from.not_modelled("activation", "silu without a gate");
  if (llama && (!is_off(from, "use_bias_in_attn_linear") || from.on("gpt_j_residual")))
    from.refuse(from.on("gpt_j_residual") ? "gpt_j_residual" : "use_bias_in_attn_linear",
                "false, as in Llama, with rmsnorm");
  const std::string tokenizer = from.text("tokenizer_type", "GPT2BPETokenizer");
  const int vocabulary = tokenizer == "GPT2BPETokenizer" ? 50257 : 50277;
  from.file().notes.push_back(fmt::format(
      "the vocabulary is not in the file: {} tokens are taken; --model with its config.json gives "
      "another",
      vocabulary));
  const std::int64_t heads = from.integer("num_attention_heads", 0);
  nlohmann::ordered_json model = {{"model_type", llama ? "llama" : "gpt_neox"},
                                  {"num_hidden_layers", from.integer("num_layers", 0)},
                                  {"hidden_size", from.integer("hidden_size", 0)},
                                  {"num_attention_heads", heads},
                                  {"intermediate_size", neox_width(from, llama)},
                                  {"vocab_size", vocabulary},
                                  {"max_position_embeddings", from.integer("max_position_embeddings", 2048)},
                                  {"tie_word_embeddings", !from.on("no_weight_tying")}};
  const double base = from.number("rotary_emb_base", 10000);
  const double rotated = from.number("rotary_pct", 1);
  if (llama) {
    if (rotated != 1) from.refuse("rotary_pct", "1 with rmsnorm");
    model["num_key_value_heads"] = from.integer("num_kv_heads", heads);
    model["rope_theta"] = base;
  } else {
    if (from.integer("num_kv_heads", heads) != heads) from.refuse("num_kv_heads", "the number of heads");
    model["rotary_pct"] = rotated;
    model["rotary_emb_base"] = base;
    model["use_parallel_residual"] = from.on("gpt_j_residual");
  }
  from.set("model", model.dump(), "num_layers");
}

void set_neox_kernels(LaunchArguments& from, std::string_view text) {
  const std::size_t at = std::min(text.find("attention_config"), text.find("attention-config"));
  std::string_view kinds = text.substr(std::min(at, text.size()));
  kinds = from.has("attention_config") ? kinds.substr(0, kinds.find('\n')) : std::string_view();
  const auto has = [&](const char* word) { return kinds.find(word) != std::string_view::npos; };
  if (!kinds.empty() && !has("flash") && !has("global"))
    from.not_modelled("attention_config", "expected flash or global");
  from.set("attention_backend", has("flash") ? "fused" : "unfused", "attention_config");
  const bool whole = from.on("checkpoint_activations");
  from.set("recompute_granularity", whole ? "full" : "none", "checkpoint_activations");
  if (whole && from.integer("checkpoint_num_layers", 1) > 1) {
    from.set("recompute_method", "uniform", "checkpoint_num_layers");
    from.set("recompute_num_layers", from.text("checkpoint_num_layers", ""), "checkpoint_num_layers");
  }
}

void set_neox_ranks(LaunchArguments& from) {
  const char* const tensor = "model_parallel_size";
  const char* const stages = "pipe_parallel_size";
  if (from.integer(tensor, 1) > 1) {
    from.set("tensor_model_parallel_size", from.text(tensor, ""), tensor);
    if (from.on("sequence_parallel")) from.set("sequence_parallel", "true", "sequence_parallel");
    if (from.on("partition_activations"))
      from.approximated("partition_activations", "layer inputs are predicted whole on every tensor rank");
  }
  if (from.integer(stages, 0) > 1) {
    from.set("pipeline_model_parallel_size", from.text(stages, ""), stages);
    from.set("pipeline_schedule", "1f1b", stages);
  }
  if (from.has("make_vocab_size_divisible_by"))
    from.set("make_vocab_size_divisible_by", from.text("make_vocab_size_divisible_by", ""),
             "make_vocab_size_divisible_by");
  from.file().notes.emplace_back(kNoGpusNote);
}

/// bf16 has fp32 gradients (BF16_Optimizer of DeepSpeed), fp16 has those of its type.
void set_neox_types(LaunchArguments& from) {
  const std::string named = from.text("precision", "None");
  if (named != "None") {
    if (named != "bfloat16" && named != "fp16") from.refuse("precision", "bfloat16 or fp16");
    from.set("precision", named == "fp16" ? "fp16" : "bf16", "precision");
  }
  const std::string type = from.text("data_types.grad_accum_dtype", "None");
  if (type == "bf16") from.not_modelled("data_types.grad_accum_dtype", "sums in bf16");
  from.set("software", "megatron-deepspeed", "num_layers");
  std::erase_if(from.file().settings, [](const LaunchSetting& each) {
    return each.key == "grad_dtype" || each.key == "overlap_grad_reduce";
  });
  from.file().approximated.push_back(
      {"software", from.origin("num_layers"), "GPT-NeoX is predicted as Megatron-DeepSpeed"});
}

}  // namespace

std::optional<LaunchFile> gpt_neox_launch(std::string_view text, const std::string& name,
                                          const BesideFile& beside) {
  const auto has = [&](std::string_view a, std::string_view b) {
    return text.find(a) != std::string_view::npos || text.find(b) != std::string_view::npos;
  };
  if (!has("pipe_parallel_size", "pipe-parallel-size") ||
      !has("model_parallel_size", "model-parallel-size") || !has("num_layers", "num-layers"))
    return std::nullopt;
  const ArgumentTable& table = argument_table("gpt_neox_keys.txt");
  std::vector<LaunchArgument> own;
  std::vector<LaunchArgument> deepspeed;
  for (LaunchArgument& each : yaml_arguments(std::string(text), name)) {
    each.name = neox_spelling(each.name);
    const bool theirs =
        table.find(each.name) == nullptr && argument_table("deepspeed_keys.txt").find(each.name) != nullptr;
    (theirs ? deepspeed : own).push_back(std::move(each));
  }
  LaunchFile file;
  file.framework = "GPT-NeoX";
  file.beside = beside;
  add_deepspeed(deepspeed, file);
  LaunchArguments from(own, table, file);
  from.attempt([&] { set_neox_model(from); });
  from.attempt([&] { set_neox_types(from); });
  from.attempt([&] { set_neox_ranks(from); });
  from.attempt([&] { set_neox_kernels(from, text); });
  return file;
}

}  // namespace plumbline
