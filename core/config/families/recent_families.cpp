// The table of families that transformers has had since 2023 and whose switches are executed. Sources: the
// configuration and model classes of transformers 5.24.
#include <iterator>

#include "core/config/families/families.hpp"
#include "core/config/families/family_readers.hpp"
#include "core/config/families/predicted_readers.hpp"

namespace plumbline {
namespace {

constexpr FamilyKeys kRecentEpsilon = {.epsilon = "layer_norm_eps"};
constexpr FamilyKeys kRecentExperts = {.ffn = "moe_intermediate_size"};
constexpr FamilyKeys kGemma2 = {.activation = "hidden_activation"};
constexpr FamilyKeys kHunyuan = {.head_dim = "head_dim|attention_head_dim"};
constexpr FamilyKeys kGptNeox = {.kv_heads = "", .head_dim = "", .epsilon = "layer_norm_eps"};

constexpr Family kRecent[] = {
    {.architecture = "arcee",
     .class_name = "ArceeForCausalLM",
     .activation = Activation::squared_relu,
     .read = read_biases},
    {.architecture = "seed_oss",
     .class_name = "SeedOssForCausalLM",
     .kv_heads_needed = true,
     .read = read_seed_oss},
    {.architecture = "ministral",
     .class_name = "MinistralForCausalLM",
     .kv_heads_needed = true,
     .read = read_ministral},
    {.architecture = "ernie4_5",
     .class_name = "Ernie4_5ForCausalLM",
     .kv_heads_needed = true,
     .rotary_pairs = RotaryPairs::neighbours,
     .read = read_ernie},
    {.architecture = "stablelm",
     .class_name = "StableLmForCausalLM",
     .keys = kRecentEpsilon,
     .kv_heads_needed = true,
     .norm = Norm::layer,
     .partial_rotary = true,
     .predicted = {.rotated = 0.25},
     .read = read_stablelm},
    {.architecture = "gpt_neox",
     .class_name = "GPTNeoXForCausalLM",
     .keys = kGptNeox,
     .activation = Activation::gelu_erf,
     .norm = Norm::layer,
     .qkv_bias = true,
     .linear_bias = true,
     .partial_rotary = true,
     .predicted = {.rotated = 0.25},
     .read = read_gpt_neox,
     .write = write_gpt_neox},
    {.architecture = "dots1",
     .class_name = "Dots1ForCausalLM",
     .keys = kRecentExperts,
     .kv_heads_needed = true,
     .qk_norm = true,
     .read = read_dots1},
    {.architecture = "smollm3",
     .class_name = "SmolLM3ForCausalLM",
     .kv_heads_needed = true,
     .read = read_smollm3},
    {.architecture = "olmo2",
     .class_name = "Olmo2ForCausalLM",
     .qk_norm = true,
     .predicted = {.norms = NormPlaces::after, .query_norm = QueryNorm::width},
     .read = read_olmo},
    {.architecture = "olmo3",
     .class_name = "Olmo3ForCausalLM",
     .qk_norm = true,
     .predicted = {.norms = NormPlaces::after, .query_norm = QueryNorm::width},
     .read = read_olmo3},
    {.architecture = "exaone4",
     .class_name = "Exaone4ForCausalLM",
     .kv_heads_needed = true,
     .qk_norm = true,
     .predicted = {.norms = NormPlaces::after},
     .read = read_exaone4},
    {.architecture = "glm4",
     .class_name = "Glm4ForCausalLM",
     .kv_heads_needed = true,
     .partial_rotary = true,
     .rotary_pairs = RotaryPairs::neighbours,
     .predicted = {.norms = NormPlaces::both},
     .read = read_glm},
    {.architecture = "gemma2",
     .class_name = "Gemma2ForCausalLM",
     .keys = kGemma2,
     .activation = Activation::geglu,
     .kv_heads_needed = true,
     .norm_less_one = true,
     .scaled_embedding = true,
     .gelu_is_tanh = true,
     .predicted = {.norms = NormPlaces::both},
     .read = read_gemma2},
    {.architecture = "olmoe",
     .class_name = "OlmoeForCausalLM",
     .qk_norm = true,
     .predicted = {.query_norm = QueryNorm::width},
     .read = read_olmoe},
    {.architecture = "minimax_m2",
     .class_name = "MiniMaxM2ForCausalLM",
     .kv_heads_needed = true,
     .partial_rotary = true,
     .predicted = {.query_norm = QueryNorm::width, .rotated = 1},
     .read = read_minimax_m2},
    {.architecture = "granite", .class_name = "GraniteForCausalLM", .read = read_granite},
    {.architecture = "hunyuan_v1_dense",
     .class_name = "HunYuanDenseV1ForCausalLM",
     .keys = kHunyuan,
     .qk_norm = true,
     .norms_rotated = true,
     .read = read_hunyuan_dense},
    {.architecture = "ernie4_5_moe",
     .class_name = "Ernie4_5_MoeForCausalLM",
     .keys = kRecentExperts,
     .kv_heads_needed = true,
     .rotary_pairs = RotaryPairs::neighbours,
     .read = read_ernie_moe},
    {.architecture = "hunyuan_v1_moe",
     .class_name = "HunYuanMoEV1ForCausalLM",
     .keys = kHunyuan,
     .qk_norm = true,
     .norms_rotated = true,
     .read = read_hunyuan_moe},
};

}  // namespace

std::span<const Family> recent_families() {
  return kRecent;
}

}  // namespace plumbline
