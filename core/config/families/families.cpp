// The table of families. Sources: the configuration and model classes of transformers; for baichuan and the
// first GLM models the code that is published with the weights (baichuan-inc, THUDM).
#include "core/config/families/families.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/config/families/family_readers.hpp"

namespace plumbline {
namespace {

constexpr FamilyKeys kLlamaKeys = {};
constexpr FamilyKeys kGpt2Keys = {.layers = "n_layer|num_hidden_layers",
                                  .hidden = "n_embd|hidden_size",
                                  .heads = "n_head|num_attention_heads",
                                  .kv_heads = "",
                                  .head_dim = "",
                                  .ffn = "n_inner",
                                  .positions = "n_positions|max_position_embeddings",
                                  .epsilon = "layer_norm_epsilon",
                                  .activation = "activation_function"};
constexpr FamilyKeys kStarcoder2Keys = {.epsilon = "norm_epsilon"};
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
                                    .hidden = "hidden_size|n_embed",
                                    .heads = "num_attention_heads|n_head",
                                    .kv_heads = "",
                                    .head_dim = "",
                                    .ffn = "ffn_hidden_size",
                                    .epsilon = "layer_norm_epsilon",
                                    .activation = "activation"};
constexpr FamilyKeys kOptKeys = {.kv_heads = "",
                                 .head_dim = "",
                                 .ffn = "ffn_dim",
                                 .epsilon = "",
                                 .activation = "activation_function",
                                 .init_std = "init_std"};
constexpr FamilyKeys kNemotronKeys = {.epsilon = "norm_eps"};
constexpr FamilyKeys kChatglmKeys = {.layers = "num_layers",
                                     .kv_heads = "",
                                     .head_dim = "kv_channels",
                                     .ffn = "ffn_hidden_size",
                                     .vocab = "padded_vocab_size",
                                     .positions = "seq_length",
                                     .epsilon = "layernorm_epsilon",
                                     .activation = ""};
constexpr FamilyKeys kBaichuanKeys = {.kv_heads = "", .head_dim = ""};
constexpr FamilyKeys kPhiKeys = {.epsilon = "layer_norm_eps"};
// Keys of the first GLM models.
constexpr FamilyKeys kFirstGlmKeys = {.layers = "num_layers",
                                      .kv_heads = "",
                                      .head_dim = "",
                                      .ffn = "inner_hidden_size",
                                      .positions = "max_sequence_length",
                                      .epsilon = "layernorm_epsilon",
                                      .activation = ""};

constexpr FamilyKeys kQwenMoeKeys = {.ffn = "moe_intermediate_size"};
constexpr FamilyKeys kDeepseekKeys = {.head_dim = "", .ffn = "moe_intermediate_size"};

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
     .qk_norm = true,
     .read = read_qwen3,
     .write = write_qwen3},
    {.architecture = "mixtral",
     .class_name = "MixtralForCausalLM",
     .keys = kLlamaKeys,
     .kv_heads_needed = true,
     .read = read_mixtral,
     .write = write_mixtral},
    {.architecture = "qwen3_moe",
     .class_name = "Qwen3MoeForCausalLM",
     .keys = kQwenMoeKeys,
     .kv_heads_needed = true,
     .qk_norm = true,
     .read = read_qwen3_moe,
     .write = write_qwen3_moe},
    {.architecture = "qwen2_moe",
     .class_name = "Qwen2MoeForCausalLM",
     .keys = kQwenMoeKeys,
     .kv_heads_needed = true,
     .qkv_bias = true,
     .read = read_qwen2_moe,
     .write = write_qwen2_moe},
    {.architecture = "deepseek_v3",
     .class_name = "DeepseekV3ForCausalLM",
     .keys = kDeepseekKeys,
     .rotary_pairs = RotaryPairs::neighbours,
     .read = read_deepseek_v3,
     .write = write_deepseek_v3},
    {.architecture = "glm4_moe",
     .class_name = "Glm4MoeForCausalLM",
     .keys = kQwenMoeKeys,
     .kv_heads_needed = true,
     .partial_rotary = true,
     .read = read_glm4_moe,
     .write = write_glm4_moe},
    {.architecture = "gpt_bigcode",
     .class_name = "GPTBigCodeForCausalLM",
     .keys = kGpt2Keys,
     .activation = Activation::gelu,
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
     .norm = Norm::layer,
     .positions = Positions::learned,
     .position_offset = 2,
     .read = read_opt,
     .write = write_opt},
    {.architecture = "nemotron",
     .class_name = "NemotronForCausalLM",
     .keys = kNemotronKeys,
     .activation = Activation::squared_relu,
     .kv_heads_needed = true,
     .norm = Norm::layer,
     .norm_less_one = true,
     .partial_rotary = true,
     .read = read_biases,
     .write = write_biases},
    {.architecture = "gemma",
     .class_name = "GemmaForCausalLM",
     .keys = kLlamaKeys,
     .activation = Activation::geglu,
     .kv_heads_needed = true,
     .norm_less_one = true,
     .scaled_embedding = true,
     .gelu_is_tanh = true,
     .read = read_gemma,
     .write = write_gemma},
    {.architecture = "glm_10b",
     .class_name = "GLMForConditionalGeneration",
     .model_type = "glm",
     .only_with = "block_position_encoding",
     .keys = kFirstGlmKeys,
     .activation = Activation::gelu,
     .norm_epsilon = 1e-5,
     .tied_embeddings = true,
     .ffn_per_hidden = 4,
     .norm = Norm::layer,
     .positions = Positions::learned,
     .qkv_bias = true,
     .linear_bias = true,
     .read = read_glm_10b,
     .write = write_glm_10b},
    {.architecture = "glm",
     .class_name = "GlmForCausalLM",
     .keys = kLlamaKeys,
     .kv_heads_needed = true,
     .partial_rotary = true,
     .rotary_pairs = RotaryPairs::neighbours,
     .read = read_glm,
     .write = write_glm},
    {.architecture = "chatglm_6b",
     .class_name = "ChatGLMModel",
     .model_type = "chatglm",
     .only_with = "position_encoding_2d",
     .keys = kFirstGlmKeys,
     .activation = Activation::gelu,
     .norm_epsilon = 1e-5,
     .ffn_per_hidden = 4,
     .norm = Norm::layer,
     .qkv_bias = true,
     .linear_bias = true,
     .read = read_chatglm_6b,
     .write = write_chatglm_6b},
    {.architecture = "glm_130b",
     .class_name = "GLM130B",
     .keys = kFirstGlmKeys,
     .activation = Activation::geglu,
     .norm_epsilon = 1e-5,
     .tied_embeddings = true,
     .norm = Norm::layer,
     .qkv_bias = true,
     .linear_bias = true,
     .read = read_glm_130b},
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
    {.architecture = "phi",
     .class_name = "PhiForCausalLM",
     .keys = kPhiKeys,
     .activation = Activation::gelu,
     .max_positions = 2048,
     .norm = Norm::layer,
     .qkv_bias = true,
     .linear_bias = true,
     .partial_rotary = true,
     .read = read_phi},
    {.architecture = "phi3",
     .class_name = "Phi3ForCausalLM",
     .keys = kLlamaKeys,
     .max_positions = 4096,
     .read = read_phi3,
     .write = write_windows},
};

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

std::array<std::span<const Family>, 3> family_tables() {
  return {families(), recent_families(), predicted_families()};
}

const Family* find_family(std::string_view architecture) {
  for (const std::span<const Family> table : family_tables()) {
    const auto found = std::find_if(table.begin(), table.end(), [&](const Family& family) {
      return family.architecture == architecture;
    });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

std::string family_names() {
  std::string names;
  for (const std::span<const Family> table : family_tables()) {
    for (const Family& family : table) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", family.architecture);
    }
  }
  return names;
}

}  // namespace plumbline
