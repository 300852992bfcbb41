// Fields of a family's config.json beyond sizes: reading and writing. Sources: as in families.cpp.
#include "core/config/families/family_readers.hpp"

#include <fmt/format.h>

#include <cmath>

#include "core/base/text_input.hpp"
#include "core/config/sliding_window.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostHeads = 1 << 14;
constexpr std::int64_t kMostPositions = std::int64_t{1} << 30;

/// The residual of chatglm-6b and glm-130b (THUDM's code calls it DeepNorm): sqrt(2L) of the norm's output.
void set_normed_residual(ModelConfig& config) {
  config.norms.residual = std::sqrt(2 * static_cast<double>(config.layers));
}

}  // namespace

void set_biases(bool attention, bool mlp, ModelConfig& config) {
  config.biases.qkv = attention;
  config.biases.linear = attention && mlp;
  config.predicted.projection_bias = attention && !mlp;
  config.predicted.feed_forward_bias = mlp && !attention;
}

void read_windows(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  SlidingWindow windows = read_sliding_window(config.architecture, config.layers, keys, with_nulls);
  config.window.size = windows.sliding_window;
  config.window.full_layers = std::move(windows.full_attention);
}
void write_windows(const ModelConfig& config, Json& out) {
  write_sliding_window(config.architecture, {config.window.size, config.window.full_layers}, out);
}

void read_biases(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_biases(keys.boolean_or("attention_bias", false), keys.boolean_or("mlp_bias", false), config);
}
void write_biases(const ModelConfig& config, Json& out) {
  out["attention_bias"] = config.biases.qkv;
  out["mlp_bias"] = config.has_feed_forward_bias();
}
void write_qwen3(const ModelConfig& config, Json& out) {
  out["attention_bias"] = config.biases.qkv;
  write_windows(config, out);
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
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  read_windows(keys, with_nulls, config);
}

void read_starcoder2(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  keys.must_be("use_bias", true, true);
  read_windows(keys, with_nulls, config);
}

/// transformers 5 reads hidden_act alone, version 4 hidden_activation.
void read_gemma(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  keys.must_be("use_bidirectional_attention", false, false);
  const std::string act = keys.string("hidden_act");
  const std::string activation = keys.string_or("hidden_activation", act);
  if (activation != act && !(act == "gelu" && activation == "gelu_pytorch_tanh")) {
    keys.fail("hidden_activation",
              fmt::format("found \"{}\" with hidden_act \"{}\", expected the same: versions of transformers "
                          "read one or the other; change one of them",
                          printable(activation), printable(act)));
  }
}
void write_gemma(const ModelConfig& config, Json& out) {
  out["attention_bias"] = config.biases.qkv;
  out["hidden_activation"] = out["hidden_act"];
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
    keys.integer_or("num_kv_heads", kMostHeads, 1);  // transformers reads it there only
    config.kv_heads = keys.boolean_or("multi_query", true) ? 1 : config.heads;
  }
  if (!grouped && keys.integer_or("num_ln_in_parallel_attn", 2, 1) != 1)
    keys.fail("num_ln_in_parallel_attn", "found 2 without new_decoder_architecture, expected 1, or none");
  const bool two_norms = grouped && keys.integer_or("num_ln_in_parallel_attn", 2, 2) == 2;
  config.block = !parallel ? Block::sequential : two_norms ? Block::parallel : Block::parallel_one_norm;
  config.biases.qkv = config.biases.linear = keys.boolean_or("bias", false);
  config.position.alibi_scaled = keys.boolean_or("alibi", false);
  if (config.position.alibi_scaled) config.position.kind = Positions::alibi;
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
  out["bias"] = config.biases.linear;
  out["alibi"] = config.position.kind == Positions::alibi;
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
  config.biases.qkv = config.biases.linear = keys.boolean_or("enable_bias", true);
}
void write_opt(const ModelConfig& config, Json& out) {
  out["enable_bias"] = config.biases.linear;
  out["word_embed_proj_dim"] = config.hidden;
}

void read_glm(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  config.biases.qkv = keys.boolean_or("attention_bias", true);
}
void write_glm(const ModelConfig& config, Json& out) {
  out["attention_bias"] = config.biases.qkv;
}

/// phi-1, phi-1.5, phi-2.
void read_phi(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  keys.must_be("qk_layernorm", false, false);
  config.block = Block::parallel_one_norm;
  config.biases.output = true;
}

void read_phi3(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) {
  keys.must_be("attention_bias", false, false);
  read_windows(keys, with_nulls, config);
}

/// chatglm2-6b, chatglm3-6b, glm-4-9b.
void read_chatglm(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  keys.must_be("rmsnorm", true, true);
  keys.must_be("add_bias_linear", false, false);
  keys.must_be("post_layer_norm", true, true);
  keys.must_be("apply_residual_connection_post_layernorm", false, false);
  config.kv_heads = keys.boolean_or("multi_query_attention", false)
                        ? keys.integer("multi_query_group_num", kMostHeads)
                        : config.heads;
  config.biases.qkv = keys.boolean_or("add_qkv_bias", false);
  config.rotary.theta = 10000 * keys.number_or("rope_ratio", 1e-3, 1e9, 1);
}
void write_chatglm(const ModelConfig& config, Json& out) {
  out["rmsnorm"] = true;
  out["add_bias_linear"] = false;
  out["add_qkv_bias"] = config.biases.qkv;
  out["multi_query_attention"] = config.kv_heads != config.heads;
  out["multi_query_group_num"] = config.kv_heads;
  out["rope_ratio"] = config.rotary.theta / 10000;
  out.erase("rope_theta");
  out.erase("partial_rotary_factor");
}

/// 7B has rotary positions, 13B has ALiBi; no key says so, but only 7B's file has max_position_embeddings.
/// Version 2 normalises the rows of its output layer; its files show it by their vocabulary only,
/// normalized_output is plumbline's own key.
void read_baichuan(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  constexpr std::int64_t kVocabularyOf2 = 125'696;
  if (keys.find("max_position_embeddings") == nullptr) {
    config.position.kind = Positions::alibi;
    config.position.max = keys.integer_or("model_max_length", kMostPositions, 4096);
  }
  config.norms.output_rows = keys.boolean_or("normalized_output", config.vocab == kVocabularyOf2);
  if (config.norms.output_rows && config.embedding.tied) {
    keys.fail("tie_word_embeddings", "found true with normalised rows of the output layer, expected false");
  }
}
void write_baichuan(const ModelConfig& config, Json& out) {
  out["normalized_output"] = config.norms.output_rows;
  if (config.position.kind != Positions::alibi) return;
  out.erase("max_position_embeddings");
  out["model_max_length"] = config.position.max;
}

void read_chatglm_6b(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  keys.must_be("position_encoding_2d", true, true);
  config.position.of_blocks = true;
  set_normed_residual(config);
  if (config.hidden % (4 * config.heads) != 0) {
    keys.fail("num_attention_heads",
              fmt::format("found {} with hidden_size {}, expected heads whose halves are rotated in pairs",
                          config.heads, config.hidden));
  }
}
void write_chatglm_6b(const ModelConfig& /*config*/, Json& out) {
  out["position_encoding_2d"] = true;
}

/// Its published file is Megatron's, whose sizes these are; bias and order of GEGLU: THUDM's code.
void read_glm_130b(const JsonKeys& /*keys*/, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_normed_residual(config);
}

/// Both tables have a row more than max_sequence_length.
void read_glm_10b(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  keys.must_be("block_position_encoding", true, true);
  config.position.of_blocks = true;
  ++config.position.max;
}
void write_glm_10b(const ModelConfig& config, Json& out) {
  out["block_position_encoding"] = true;
  out["max_sequence_length"] = config.position.max - 1;
}

}  // namespace plumbline
