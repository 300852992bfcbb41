// The table of families that are predicted and not executed. Sources: the configuration and model classes of
// transformers 5.24; for minicpm, internlm2 and exaone the code that is published with the weights.
#include "core/config/families/predicted_readers.hpp"

#include <iterator>

#include "core/config/families/families.hpp"
#include "core/config/families/family_readers.hpp"

namespace plumbline {
namespace {

constexpr const char* kPlainLayerNorm = "LayerNorm without bias";
constexpr const char* kNoLayout = "weights of a layout that it does not read";

constexpr FamilyKeys kActivation = {.activation = "hidden_activation"};
constexpr FamilyKeys kLayerNormEps = {.epsilon = "layer_norm_eps"};
constexpr FamilyKeys kNoHeadDim = {.head_dim = ""};
constexpr FamilyKeys kCohere2 = {.head_dim = "", .epsilon = "layer_norm_eps"};
constexpr FamilyKeys kOlmo = {.epsilon = ""};
constexpr FamilyKeys kExperts = {.ffn = "moe_intermediate_size"};
constexpr FamilyKeys kLatent = {.head_dim = "", .ffn = "moe_intermediate_size"};
constexpr FamilyKeys kNemotronH = {.head_dim = "head_dim|attention_head_dim",
                                   .epsilon = "layer_norm_epsilon",
                                   .activation = "mlp_hidden_act"};
constexpr FamilyKeys kApertus = {.activation = ""};
constexpr FamilyKeys kExaone = {.layers = "num_layers|num_hidden_layers",
                                .epsilon = "layer_norm_epsilon",
                                .activation = "activation_function"};
constexpr FamilyKeys kDbrx = {.layers = "n_layers",
                              .hidden = "d_model",
                              .heads = "n_heads",
                              .kv_heads = "",
                              .head_dim = "",
                              .ffn = "",
                              .positions = "max_seq_len",
                              .epsilon = "",
                              .activation = ""};

constexpr Family kPredicted[] = {
    // Dense models.
    {.architecture = "gemma3_text",
     .class_name = "Gemma3ForCausalLM",
     .keys = kActivation,
     .activation = Activation::geglu,
     .norm_less_one = true,
     .qk_norm = true,
     .scaled_embedding = true,
     .gelu_is_tanh = true,
     .predicted = {.names = "rotary embeddings of two bases", .norms = NormPlaces::both},
     .read = read_gemma3},
    {.architecture = "olmo",
     .class_name = "OlmoForCausalLM",
     .keys = kOlmo,
     .norm_epsilon = 1e-5,
     .norm = Norm::layer,
     .predicted = {.names = "LayerNorm without weights", .norm_vectors = 0},
     .read = read_olmo},
    {.architecture = "exaone",
     .class_name = "ExaoneForCausalLM",
     .keys = kExaone,
     .predicted = {.names = kNoLayout}},
    {.architecture = "apertus",
     .class_name = "ApertusForCausalLM",
     .keys = kApertus,
     .activation = Activation::squared_relu,
     .qk_norm = true,
     .predicted = {.names = "xIELU"},
     .read = read_apertus},
    {.architecture = "cohere",
     .class_name = "CohereForCausalLM",
     .keys = kLayerNormEps,
     .norm = Norm::layer,
     .rotary_pairs = RotaryPairs::neighbours,
     .predicted = {.names = kPlainLayerNorm, .query_norm = QueryNorm::width, .norm_vectors = 1},
     .read = read_cohere},
    {.architecture = "cohere2",
     .class_name = "Cohere2ForCausalLM",
     .keys = kCohere2,
     .norm = Norm::layer,
     .rotary_pairs = RotaryPairs::neighbours,
     .predicted = {.names = kPlainLayerNorm, .norm_vectors = 1},
     .read = read_cohere2},
    {.architecture = "ministral3",
     .class_name = "Ministral3ForCausalLM",
     .kv_heads_needed = true,
     .predicted = {.names = kNoLayout},
     .read = read_ministral},
    {.architecture = "minicpm",
     .class_name = "MiniCPMForCausalLM",
     .norm_epsilon = 1e-6,
     .tied_embeddings = true,
     .predicted = {.names = "multipliers"},
     .read = read_minicpm},
    {.architecture = "minicpm3",
     .class_name = "MiniCPM3ForCausalLM",
     .keys = kNoHeadDim,
     .tied_embeddings = true,
     .predicted = {.names = "latent attention without experts, multipliers"},
     .read = read_minicpm3},
    {.architecture = "internlm2",
     .class_name = "InternLM2ForCausalLM",
     .predicted = {.names = kNoLayout},
     .read = read_internlm2},
    // Mixtures of experts.
    {.architecture = "gpt_oss",
     .class_name = "GptOssForCausalLM",
     .kv_heads_needed = true,
     .predicted = {.names = "sinks, a clamped gate, biases of experts"},
     .read = read_gpt_oss},
    {.architecture = "llama4_text",
     .class_name = "Llama4ForCausalLM",
     .kv_heads_needed = true,
     .rotary_pairs = RotaryPairs::neighbours,
     .predicted = {.names = "weights of experts at their inputs", .query_norm = QueryNorm::plain},
     .read = read_llama4},
    {.architecture = "phimoe",
     .class_name = "PhimoeForCausalLM",
     .kv_heads_needed = true,
     .norm = Norm::layer,
     .predicted = {.names = "sparse mixer routing"},
     .read = read_phimoe},
    {.architecture = "granitemoe",
     .class_name = "GraniteMoeForCausalLM",
     .predicted = {.names = "multipliers"},
     .read = read_granite_moe},
    {.architecture = "granitemoeshared",
     .class_name = "GraniteMoeSharedForCausalLM",
     .predicted = {.names = "multipliers"},
     .read = read_granite_moe},
    {.architecture = "granitemoehybrid",
     .class_name = "GraniteMoeHybridForCausalLM",
     .max_positions = 2048,
     .predicted = {.names = "multipliers"},
     .read = read_granite_hybrid},
    {.architecture = "nemotron_h",
     .class_name = "NemotronHForCausalLM",
     .keys = kNemotronH,
     .activation = Activation::squared_relu,
     .norm_epsilon = 1e-5,
     .kv_heads_needed = true,
     .positions = Positions::none,
     .predicted = {.names = "Mamba mixers, layers of a single block"},
     .read = read_nemotron_h,
     .write = write_nemotron_h},
    {.architecture = "dbrx",
     .class_name = "DbrxForCausalLM",
     .keys = kDbrx,
     .norm_epsilon = 1e-5,
     .norm = Norm::layer,
     .predicted = {.names = kPlainLayerNorm, .norm_vectors = 1},
     .read = read_dbrx},
    {.architecture = "deepseek_v2",
     .class_name = "DeepseekV2ForCausalLM",
     .keys = kLatent,
     .rotary_pairs = RotaryPairs::neighbours,
     .predicted = {.names = "softmax scores with latent attention"},
     .read = read_deepseek_v2},
};

}  // namespace

std::span<const Family> predicted_families() {
  return kPredicted;
}

}  // namespace plumbline
