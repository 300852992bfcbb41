// Files of a model_type that no family has.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/families/families.hpp"

namespace plumbline {
namespace {

/// Keys that say nothing about layers: names, tokens, values, and how a checkpoint is stored.
constexpr std::string_view kHarmlessKeys[] = {"_name_or_path",
                                              "architectures",
                                              "attention_dropout",
                                              "auto_map",
                                              "aux_loss_alpha",
                                              "bos_token_id",
                                              "chunk_size_feed_forward",
                                              "dtype",
                                              "eos_token_id",
                                              "ep_size",
                                              "hidden_dropout",
                                              "id2label",
                                              "initializer_range",
                                              "intermediate_size",
                                              "is_encoder_decoder",
                                              "label2id",
                                              "model_type",
                                              "num_nextn_predict_layers",
                                              "output_attentions",
                                              "output_hidden_states",
                                              "pad_token_id",
                                              "pretraining_tp",
                                              "problem_type",
                                              "quantization_config",
                                              "return_dict",
                                              "router_aux_loss_coef",
                                              "seq_aux",
                                              "tie_word_embeddings",
                                              "torch_dtype",
                                              "transformers_version",
                                              "use_cache"};

/// Keys of DeepSeek-V3's and GLM-4.5's experts: a file with all of them says what they are.
constexpr const char* kExpertKeys[] = {"n_routed_experts", "n_shared_experts", "num_experts_per_tok",
                                       "moe_intermediate_size", "norm_topk_prob"};

/// Models of no family, by the keys that only they have.
[[noreturn]] void refuse(const JsonKeys& keys, const std::string& what) {
  keys.fail("model_type", fmt::format("found \"{}\"{}, supported: {}",
                                      printable(keys.string_or("model_type", "")), what, family_names()));
}

}  // namespace

const Family& family_by_keys(const JsonKeys& keys) {
  const bool latent = keys.find("kv_lora_rank") != nullptr;
  const bool experts = std::all_of(std::begin(kExpertKeys), std::end(kExpertKeys),
                                   [&](const char* key) { return keys.find(key) != nullptr; });
  if (experts) return *find_family(latent ? "deepseek_v3" : "glm4_moe");
  for (const char* key : {"kv_lora_rank", "q_lora_rank"})
    if (keys.find(key) != nullptr)
      refuse(keys, fmt::format(", whose latent attention ({}) is of no known family", key));
  for (const char* key : {"num_local_experts", "num_experts", "n_routed_experts", "moe_intermediate_size"})
    if (keys.find(key) != nullptr)
      refuse(keys, fmt::format(", whose mixture of experts ({}) is of no known family", key));
  refuse(keys, "");
}

void add_unknown_defaults(Json& object) {
  // The class of solar_open has no such keys (transformers 5.24).
  for (const auto& [key, value] : {std::pair<const char*, Json>{"first_k_dense_replace", 0},
                                   {"partial_rotary_factor", 1.0},
                                   {"n_group", 1},
                                   {"topk_group", 1},
                                   {"routed_scaling_factor", 1.0}})
    if (!object.contains(key)) object[key] = value;
}

void read_unknown(const Family& family, const JsonKeys& keys, const JsonKeys& with_nulls,
                  ModelConfig& config) {
  try {
    read_family(family, keys, with_nulls, config);
  } catch (const InputError& error) {
    keys.fail("model_type",
              fmt::format("found \"{}\", which is no known family's; as {} it is refused: {}; supported: {}",
                          printable(keys.string_or("model_type", "")), family.architecture, error.what(),
                          family_names()));
  }
}

void refuse_unread_keys(const Family& family, const Json& object, const JsonKeys& keys,
                        const JsonKeys& with_nulls) {
  for (const auto& [key, value] : object.items()) {
    const bool read = keys.asked_for(key) || with_nulls.asked_for(key);
    const bool harmless =
        std::find(std::begin(kHarmlessKeys), std::end(kHarmlessKeys), key) != std::end(kHarmlessKeys);
    if (read || harmless || value.is_null() || value == false) continue;
    keys.fail("model_type", fmt::format("found \"{}\" with {}, which {} does not have; supported: {}",
                                        printable(keys.string_or("model_type", "")), printable(key, 100),
                                        family.architecture, family_names()));
  }
}

}  // namespace plumbline
