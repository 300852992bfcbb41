// Models whose layers no switch describes, and names of models whose layers are those of a family.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/families/families.hpp"

namespace plumbline {
namespace {

struct NamedType {
  std::string_view type;
  std::string_view name;
};

constexpr std::string_view kMamba = "a model with Mamba layers";
constexpr std::string_view kLinear = "a model with linear attention";
constexpr std::string_view kSparse = "a model with sparse attention";

constexpr NamedType kOtherTypes[] = {
    {"mamba", kMamba},
    {"mamba2", kMamba},
    {"falcon_mamba", kMamba},
    {"falcon_h1", "a hybrid of attention and Mamba layers"},
    {"bamba", "a hybrid of attention and Mamba layers"},
    {"jamba", "a hybrid of attention and Mamba layers"},
    {"zamba", "a hybrid of attention and Mamba layers"},
    {"zamba2", "a hybrid of attention and Mamba layers"},
    {"plamo2", "a hybrid of attention and Mamba layers"},
    {"qwen3_next", "a hybrid of attention and linear attention layers"},
    {"qwen3_5", "a hybrid of attention and linear attention layers"},
    {"qwen3_5_text", "a hybrid of attention and linear attention layers"},
    {"qwen3_5_moe", "a hybrid of attention and linear attention layers"},
    {"qwen3_5_moe_text", "a hybrid of attention and linear attention layers"},
    {"kimi_linear", "a hybrid of attention and linear attention layers"},
    {"minimax", "a hybrid of attention and linear attention layers"},
    {"minimax_text_01", "a hybrid of attention and linear attention layers"},
    {"minimax_m1", "a hybrid of attention and linear attention layers"},
    {"bailing_hybrid", "a hybrid of attention and linear attention layers"},
    {"bailing_moe_linear", "a hybrid of attention and linear attention layers"},
    {"olmo_hybrid", "a hybrid of attention and linear attention layers"},
    {"rwkv", kLinear},
    {"rwkv7", kLinear},
    {"recurrent_gemma", "a hybrid of attention and recurrent layers"},
    {"xlstm", "a model with recurrent layers"},
    {"lfm2", "a hybrid of attention and convolutions"},
    {"lfm2_moe", "a hybrid of attention and convolutions"},
    {"deepseek_v32", kSparse},
    {"deepseek_v3_2", kSparse},  // as the Hub names it
    {"deepseek_v4", kSparse},
    {"glm_5", kSparse},
    {"glm_moe_dsa", kSparse},
};

/// Families that are known for what the predicted layers lack.
constexpr NamedType kOtherFamilies[] = {
    {"gemma4", "Gemma 4, whose attention has heads of two sizes and keys that are values"},
    {"gemma4_text", "Gemma 4, whose attention has heads of two sizes and keys that are values"},
    {"gemma3n_text", "Gemma 3n, whose layers have several streams and embeddings of their own"},
    {"exaone_moe", "K-EXAONE, whose experts stand behind attention with windows and unrotated layers"},
    {"step3p7", "Step 3.7, whose attention has gates and heads that differ by layer"},
    {"step3p7_text", "Step 3.7, whose attention has gates and heads that differ by layer"},
    {"step3p5", "Step 3.5, whose attention has gates and heads that differ by layer"},
    {"afmoe", "Trinity, whose attention has a gate on its result"},
    {"nemotron-nas", "Nemotron NAS, whose layers have widths of their own (block_configs)"},
    {"longcat_flash", "LongCat, whose layers have two attentions and experts that do nothing"},
};

/// Keys that only such models have.
constexpr NamedType kOtherKeys[] = {
    {"index_topk", kSparse},
    {"sparse_attention_config", kSparse},
    {"mamba_d_state", kMamba},
    {"ssm_state_size", kMamba},
    {"ssm_cfg", kMamba},
    {"linear_num_key_heads", kLinear},
    {"linear_attn_config", kLinear},
};

/// Text models of multimodal ones, and models with other models' layers.
constexpr NamedType kAliases[] = {
    {"qwen2_vl", "qwen2"},
    {"qwen2_vl_text", "qwen2"},
    {"qwen2_5_vl", "qwen2"},
    {"qwen2_5_vl_text", "qwen2"},
    {"qwen2_5_omni_text", "qwen2"},
    {"qwen3_vl_text", "qwen3"},
    {"qwen3_vl_moe_text", "qwen3_moe"},
    {"qwen3_omni_moe_text", "qwen3_moe"},
    {"glm4v_moe_text", "glm4_moe"},
    {"glm4v_text", "glm4"},
    {"glm4_moe_lite", "deepseek_v3"},
    {"mimo", "qwen2"},
};

/// The values of a list of names that tell kinds of layers apart.
std::string_view kind_in(const Json& list) {
  if (!list.is_array()) return "";
  for (const Json& entry : list) {
    if (!entry.is_string()) continue;
    const auto& text = entry.get_ref<const std::string&>();
    if (text.find("mamba") != std::string::npos) return kMamba;
    if (text.find("linear_attention") != std::string::npos) return kLinear;
  }
  return "";
}

constexpr std::string_view kUsual = "attention over all keys or a window in every layer";

/// A model's name without its owner, spelled as a model_type.
std::string as_type(std::string_view name) {
  std::string type(name.substr(name.rfind('/') + 1));
  for (char& c : type)
    c = c == '-' || c == '.' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return type;
}

/// Families whose Mamba mixers are read (hybrid_readers.cpp).
constexpr std::string_view kHybrids[] = {"nemotron_h", "granitemoehybrid"};

}  // namespace

std::string_view family_of_alias(std::string_view type) {
  const auto* found = std::find_if(std::begin(kAliases), std::end(kAliases),
                                   [&](const NamedType& alias) { return alias.type == type; });
  return found == std::end(kAliases) ? std::string_view() : found->name;
}

void refuse_other_layers(const JsonKeys& keys) {
  const auto refuse = [&](const std::string& key, const std::string& found, std::string_view name) {
    keys.fail(key, fmt::format("found {}, {}, expected one with {}", found, name, kUsual));
  };
  const std::string type = keys.string_or("model_type", "");
  if (std::find(std::begin(kHybrids), std::end(kHybrids), type) != std::end(kHybrids)) return;
  for (const NamedType& other : kOtherFamilies) {
    if (other.type == type)
      keys.fail("model_type",
                fmt::format("found \"{}\", {}, supported: {}", printable(type), other.name, family_names()));
  }
  for (const NamedType& other : kOtherTypes) {
    if (other.type == type) refuse("model_type", fmt::format("\"{}\"", printable(type)), other.name);
  }
  for (const NamedType& other : kOtherKeys) {
    const std::string key(other.type);
    if (const Json* value = keys.find(key)) refuse(key, JsonKeys::shown(*value), other.name);
  }
  for (const char* key : {"layer_types", "layers_block_type"}) {
    const Json* list = keys.find(key);
    if (list == nullptr) continue;
    if (const std::string_view kind = kind_in(*list); !kind.empty())
      refuse(key, JsonKeys::shown(*list), kind);
  }
}

void refuse_other_layers(const std::string& name, const std::string& place) {
  const std::string type = as_type(name);
  const auto begins_as = [&](const NamedType& other) {
    const bool numbered = other.type.find_first_of("0123456789") != std::string_view::npos;
    return numbered && type.starts_with(other.type) &&
           (type.size() == other.type.size() || type[other.type.size()] == '_');
  };
  for (const NamedType& other : kOtherTypes) {
    if (begins_as(other))
      throw InputError(fmt::format("{}model: found \"{}\", {}, expected one with {}", place,
                                   printable(name, 200), other.name, kUsual));
  }
}

}  // namespace plumbline
