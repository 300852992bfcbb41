// The table of families. Sources: the configuration and model classes of transformers; for baichuan and chatglm the code
// that is published with the weights (baichuan-inc, THUDM).
#include "core/config/families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/config/sliding_window.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostHeads = 1 << 14;
constexpr std::int64_t kMostPositions = std::int64_t{1} << 30;

void read_windows(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  SlidingWindow windows = read_sliding_window(config.architecture, config.layers, keys, with_nulls);
  config.sliding_window = windows.sliding_window;
  config.full_attention = std::move(windows.full_attention);
}
void write_windows(const ModelConfig& config, Json& out) {
  write_sliding_window(config.architecture, {config.sliding_window, config.full_attention}, out);
}

/// attention_bias and mlp_bias, of which one alone is not supported.
void read_biases(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  const bool attention = keys.boolean_or("attention_bias", false);
  const bool mlp = keys.boolean_or("mlp_bias", false);
  if (attention != mlp) {
    keys.fail("mlp_bias",
              fmt::format("found {} with attention_bias {}; supported: both or neither", mlp, attention));
  }
  config.qkv_bias = config.linear_bias = attention;
}
void write_biases(const ModelConfig& config, Json& out) {
  out["attention_bias"] = config.qkv_bias;
  out["mlp_bias"] = config.linear_bias;
}

void read_gpt2(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& /*config*/) {
  keys.must_be("scale_attn_weights", true, true);
  keys.must_be("scale_attn_by_inverse_layer_idx", false, false);
  keys.must_be("add_cross_attention", false, false);
}

void read_gpt_bigcode(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  keys.must_be("scale_attn_weights", true, true);
  keys.must_be("add_cross_attention", false, false);
  if (keys.boolean_or("multi_query", true)) config.kv_heads = 1;
}
void write_gpt_bigcode(const ModelConfig& config, Json& out) {
  out["multi_query"] = config.kv_heads == 1;
}

void read_qwen3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  keys.must_be("attention_bias", false, false);
  read_windows(keys, with_nulls, config);
}

void read_starcoder2(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  keys.must_be("use_bias", true, true);
  read_windows(keys, with_nulls, config);
}

void read_gemma(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& /*config*/) {
  keys.must_be("attention_bias", false, false);
}

void read_bloom(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& /*config*/) {
  keys.must_be("apply_residual_connection_post_layernorm", false, false);
}

/// The three kinds of falcon: rw (ALiBi, sequential), 7B (one key/value head), 40B and larger (groups).
void read_falcon(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  const bool grouped = keys.boolean_or("new_decoder_architecture", false);
  const bool parallel = grouped || keys.boolean_or("parallel_attn", true);
  if (grouped) {
    config.kv_heads = keys.integer_or("num_kv_heads", kMostHeads, config.heads);
  } else {
    config.kv_heads = keys.boolean_or("multi_query", true) ? 1 : config.heads;
  }
  const bool two_norms = grouped && keys.integer_or("num_ln_in_parallel_attn", 2, 2) == 2;
  config.block = !parallel ? Block::sequential : two_norms ? Block::parallel : Block::parallel_one_norm;
  config.qkv_bias = config.linear_bias = keys.boolean_or("bias", false);
  config.alibi_scaled = keys.boolean_or("alibi", false);
  if (config.alibi_scaled) config.positions = Positions::alibi;
}
void write_falcon(const ModelConfig& config, Json& out) {
  const bool grouped =
      config.block == Block::parallel || (config.kv_heads != 1 && config.kv_heads != config.heads);
  out["new_decoder_architecture"] = grouped;
  out["parallel_attn"] = config.block != Block::sequential;
  out["multi_query"] = config.kv_heads == 1;
  if (grouped) {
    out["num_kv_heads"] = config.kv_heads;
    out["num_ln_in_parallel_attn"] = config.layer_norms();
  }
  out["bias"] = config.linear_bias;
  out["alibi"] = config.positions == Positions::alibi;
}

/// Galactica is of this class, too.
void read_opt(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  keys.must_be("do_layer_norm_before", true, true);
  keys.must_be("layer_norm_elementwise_affine", true, true);
  keys.must_be("_remove_final_layer_norm", false, false);
  const std::int64_t width = keys.integer_or("word_embed_proj_dim", std::int64_t{1} << 20, config.hidden);
  if (width != config.hidden) {
    keys.fail("word_embed_proj_dim",
              fmt::format("found {}, supported is hidden_size {} only", width, config.hidden));
  }
  config.qkv_bias = config.linear_bias = keys.boolean_or("enable_bias", true);
}
void write_opt(const ModelConfig& config, Json& out) {
  out["enable_bias"] = config.linear_bias;
  out["word_embed_proj_dim"] = config.hidden;
}

void read_glm(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  config.qkv_bias = keys.boolean_or("attention_bias", true);
}
void write_glm(const ModelConfig& config, Json& out) {
  out["attention_bias"] = config.qkv_bias;
}

/// chatglm2-6b, chatglm3-6b, glm-4-9b. chatglm-6b has the same model_type and is another model.
void read_chatglm(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  keys.must_be("position_encoding_2d", false, false);
  keys.must_be("rmsnorm", true, true);
  keys.must_be("add_bias_linear", false, false);
  keys.must_be("post_layer_norm", true, true);
  keys.must_be("apply_residual_connection_post_layernorm", false, false);
  config.kv_heads = keys.boolean_or("multi_query_attention", false)
                        ? keys.integer("multi_query_group_num", kMostHeads)
                        : config.heads;
  config.qkv_bias = keys.boolean_or("add_qkv_bias", false);
  config.rope_theta = 10000 * keys.number_or("rope_ratio", 1e-3, 1e9, 1);
}
void write_chatglm(const ModelConfig& config, Json& out) {
  out["rmsnorm"] = true;
  out["add_bias_linear"] = false;
  out["add_qkv_bias"] = config.qkv_bias;
  out["multi_query_attention"] = config.kv_heads != config.heads;
  out["multi_query_group_num"] = config.kv_heads;
  out["rope_ratio"] = config.rope_theta / 10000;
  out.erase("rope_theta");
  out.erase("partial_rotary_factor");
}

/// 7B rotates, 13B has ALiBi; no key says so, but only 7B's file has max_position_embeddings. Version 2 normalises
/// the rows of its output layer and has its own vocabulary.
void read_baichuan(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  constexpr std::int64_t kVocabularyOf2 = 125'696;
  if (keys.find("max_position_embeddings") == nullptr) {
    config.positions = Positions::alibi;
    config.max_positions = keys.integer_or("model_max_length", kMostPositions, 4096);
  }
  if (config.vocab == kVocabularyOf2) {
    keys.fail("vocab_size",
              "found 125696, Baichuan 2, whose output layer has normalised rows; supported are the "
              "models before it");
  }
}
void write_baichuan(const ModelConfig& config, Json& out) {
  if (config.positions != Positions::alibi) return;
  out.erase("max_position_embeddings");
  out["model_max_length"] = config.max_positions;
}

constexpr FamilyKeys kLlamaKeys = {};
constexpr FamilyKeys kGpt2Keys = {.layers = "n_layer",
                                  .hidden = "n_embd",
                                  .heads = "n_head",
                                  .kv_heads = "",
                                  .head_dim = "",
                                  .ffn = "n_inner",
                                  .positions = "n_positions",
                                  .epsilon = "layer_norm_epsilon",
                                  .activation = "activation_function"};
constexpr FamilyKeys kStarcoder2Keys = {.head_dim = "", .epsilon = "norm_epsilon"};
constexpr FamilyKeys kBloomKeys = {.layers = "n_layer|num_hidden_layers",
                                   .hidden = "hidden_size|n_embed",
                                   .heads = "n_head|num_attention_heads",
                                   .kv_heads = "",
                                   .head_dim = "",
                                   .ffn = "",
                                   .positions = "seq_length",
                                   .epsilon = "layer_norm_epsilon",
                                   .activation = ""};
constexpr FamilyKeys kFalconKeys = {.layers = "num_hidden_layers|n_layer",
                                    .heads = "num_attention_heads|n_head",
                                    .kv_heads = "",
                                    .head_dim = "",
                                    .ffn = "ffn_hidden_size",
                                    .epsilon = "layer_norm_epsilon",
                                    .activation = "activation"};
constexpr FamilyKeys kOptKeys = {
    .kv_heads = "", .head_dim = "", .ffn = "ffn_dim", .epsilon = "", .activation = "activation_function"};
constexpr FamilyKeys kNemotronKeys = {.epsilon = "norm_eps"};
constexpr FamilyKeys kGemmaKeys = {.activation = "hidden_activation"};
constexpr FamilyKeys kChatglmKeys = {.layers = "num_layers",
                                     .kv_heads = "",
                                     .head_dim = "kv_channels",
                                     .ffn = "ffn_hidden_size",
                                     .vocab = "padded_vocab_size",
                                     .positions = "seq_length",
                                     .epsilon = "layernorm_epsilon",
                                     .activation = ""};
constexpr FamilyKeys kBaichuanKeys = {.kv_heads = "", .head_dim = ""};

constexpr Family kFamilies[] = {
    {.architecture = "llama",
     .class_name = "LlamaForCausalLM",
     .keys = kLlamaKeys,
     .read = read_biases,
     .write = write_biases},
    {.architecture = "mistral",
     .class_name = "MistralForCausalLM",
     .keys = kLlamaKeys,
     .kv_heads_needed = true,
     .read = read_windows,
     .write = write_windows},
    {.architecture = "qwen2",
     .class_name = "Qwen2ForCausalLM",
     .keys = kLlamaKeys,
     .kv_heads_needed = true,
     .qkv_bias = true,
     .read = read_windows,
     .write = write_windows},
    {.architecture = "gpt2",
     .class_name = "GPT2LMHeadModel",
     .keys = kGpt2Keys,
     .activation = Activation::gelu,
     .norm_epsilon = 1e-5,
     .tied_embeddings = true,
     .ffn_per_hidden = 4,
     .norm = Norm::layer,
     .positions = Positions::learned,
     .qkv_bias = true,
     .linear_bias = true,
     .read = read_gpt2},
    {.architecture = "qwen3",
     .class_name = "Qwen3ForCausalLM",
     .keys = kLlamaKeys,
     .kv_heads_needed = true,
     .head_dim = 128,
     .qk_norm = true,
     .read = read_qwen3,
     .write = write_windows},
    {.architecture = "gpt_bigcode",
     .class_name = "GPTBigCodeForCausalLM",
     .keys = kGpt2Keys,
     .activation = Activation::gelu,
     .norm_epsilon = 1e-5,
     .tied_embeddings = true,
     .ffn_per_hidden = 4,
     .norm = Norm::layer,
     .positions = Positions::learned,
     .qkv_bias = true,
     .linear_bias = true,
     .read = read_gpt_bigcode,
     .write = write_gpt_bigcode},
    {.architecture = "starcoder2",
     .class_name = "Starcoder2ForCausalLM",
     .keys = kStarcoder2Keys,
     .activation = Activation::gelu,
     .norm_epsilon = 1e-5,
     .tied_embeddings = true,
     .kv_heads_needed = true,
     .norm = Norm::layer,
     .qkv_bias = true,
     .linear_bias = true,
     .read = read_starcoder2,
     .write = write_windows},
    {.architecture = "bloom",
     .class_name = "BloomForCausalLM",
     .keys = kBloomKeys,
     .activation = Activation::gelu,
     .norm_epsilon = 1e-5,
     .tied_embeddings = true,
     .max_positions = 2048,
     .ffn_per_hidden = 4,
     .norm = Norm::layer,
     .positions = Positions::alibi,
     .qkv_bias = true,
     .linear_bias = true,
     .embedding_norm = true,
     .read = read_bloom},
    {.architecture = "falcon",
     .class_name = "FalconForCausalLM",
     .keys = kFalconKeys,
     .activation = Activation::gelu_erf,
     .norm_epsilon = 1e-5,
     .tied_embeddings = true,
     .max_positions = 2048,
     .ffn_per_hidden = 4,
     .norm = Norm::layer,
     .read = read_falcon,
     .write = write_falcon},
    {.architecture = "opt",
     .class_name = "OPTForCausalLM",
     .keys = kOptKeys,
     .activation = Activation::relu,
     .norm_epsilon = 1e-5,
     .tied_embeddings = true,
     .norm = Norm::layer,
     .positions = Positions::learned,
     .position_offset = 2,
     .read = read_opt,
     .write = write_opt},
    {.architecture = "nemotron",
     .class_name = "NemotronForCausalLM",
     .keys = kNemotronKeys,
     .activation = Activation::squared_relu,
     .norm_epsilon = 1e-5,
     .norm = Norm::layer,
     .norm_less_one = true,
     .partial_rotary = true,
     .read = read_biases,
     .write = write_biases},
    {.architecture = "gemma",
     .class_name = "GemmaForCausalLM",
     .keys = kGemmaKeys,
     .activation = Activation::geglu,
     .tied_embeddings = true,
     .head_dim = 256,
     .norm_less_one = true,
     .scaled_embedding = true,
     .read = read_gemma},
    {.architecture = "glm",
     .class_name = "GlmForCausalLM",
     .keys = kLlamaKeys,
     .norm_epsilon = 1.5625e-07,
     .kv_heads_needed = true,
     .head_dim = 128,
     .partial_rotary = true,
     .rotary_pairs = RotaryPairs::neighbours,
     .read = read_glm,
     .write = write_glm},
    {.architecture = "chatglm",
     .class_name = "ChatGLMForConditionalGeneration",
     .keys = kChatglmKeys,
     .norm_epsilon = 1e-5,
     .partial_rotary = true,
     .rotary_pairs = RotaryPairs::neighbours,
     .read = read_chatglm,
     .write = write_chatglm},
    {.architecture = "baichuan",
     .class_name = "BaichuanForCausalLM",
     .keys = kBaichuanKeys,
     .max_positions = 4096,
     .read = read_baichuan,
     .write = write_baichuan},
};

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

const Family* find_family(std::string_view architecture) {
  const auto* found = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                   [&](const Family& family) { return family.architecture == architecture; });
  return found == std::end(kFamilies) ? nullptr : found;
}

std::string family_names() {
  std::string names;
  for (const Family& family : kFamilies) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", family.architecture);
  }
  return names;
}

}  // namespace plumbline
