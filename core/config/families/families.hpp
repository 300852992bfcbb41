// Model families that can be trained: the keys of their config.json, and the switches they set. A family is a
// row of kFamilies; model_config.hpp describes the switches.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "core/base/json_keys.hpp"
#include "core/config/model_config.hpp"

namespace plumbline {

/// The keys of a family's config.json. "a|b": either, or both with the same value; a is written. Empty: the
/// family has no such key.
struct FamilyKeys {
  const char* layers = "num_hidden_layers";
  const char* hidden = "hidden_size";
  const char* heads = "num_attention_heads";
  const char* kv_heads = "num_key_value_heads";
  const char* head_dim = "head_dim";
  const char* ffn = "intermediate_size";
  const char* vocab = "vocab_size";
  const char* positions = "max_position_embeddings";
  const char* epsilon = "rms_norm_eps";
  const char* activation = "hidden_act";
  const char* init_std = "initializer_range";
};

/// Switches of all models of a family that is predicted and not executed (predicted_switches.hpp).
struct PredictedFamily {
  const char* names = "";  // what the executed step lacks; empty: what `read` finds
  NormPlaces norms = NormPlaces::before;
  QueryNorm query_norm = QueryNorm::head;
  std::int64_t norm_vectors = -1;
  double rotated = 0.5;  // share of a head that is rotated where the file is silent and partial_rotary
};

struct Family {
  std::string_view architecture;
  std::string_view class_name;       // name of the class in transformers (or the model's own code)
  std::string_view model_type = "";  // of a config.json; empty: as architecture
  /// Key that tells this family apart from others with the same model_type; those without it come later.
  const char* only_with = "";
  FamilyKeys keys{};
  Activation activation =
      Activation::swiglu;  // where the file has no such key, which decides whether there is a gate
  // Defaults of families that transformers does not have; family_defaults.hpp has those of the others.
  double norm_epsilon = 1e-6;
  bool tied_embeddings = false;
  bool kv_heads_needed = false;     // else as many as query heads
  std::int64_t max_positions = 0;   // 0: the file must have it
  std::int64_t head_dim = 0;        // 0: hidden / heads
  std::int64_t ffn_per_hidden = 0;  // 0: the file must have it
  // Switches of all its models.
  Norm norm = Norm::rms;
  Positions positions = Positions::rotary;
  bool qkv_bias = false;
  bool linear_bias = false;
  bool norm_less_one = false;
  bool embedding_norm = false;
  bool qk_norm = false;
  bool norms_rotated = false;
  bool scaled_embedding = false;
  bool partial_rotary = false;  // it has partial_rotary_factor
  bool gelu_is_tanh = false;    // a file's "gelu" is meant to be GPT-2's approximation
  RotaryPairs rotary_pairs = RotaryPairs::halves;
  std::int64_t position_offset = 0;
  PredictedFamily predicted{};
  /// Reads the rest of the file, after everything above.
  void (*read)(const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config) = nullptr;
  void (*write)(const ModelConfig& config, Json& out) = nullptr;

  std::string_view type() const { return model_type.empty() ? architecture : model_type; }
};

/// Those that are executed, whose readers and writers are in family_readers.hpp.
std::span<const Family> families();
/// Executed, too, where no switch of their files is predicted only. to_config_json writes the keys that were
/// read.
std::span<const Family> recent_families();
/// Those that are only predicted.
std::span<const Family> predicted_families();
/// All three tables.
std::array<std::span<const Family>, 3> family_tables();
/// The family of a model_type that stands for another's layers: the text model of a multimodal one. Empty:
/// none.
std::string_view family_of_alias(std::string_view type);
/// Throws InputError for a model whose layers are of another kind (Mamba, linear or sparse attention, latent
/// attention and mixtures that no family has), naming it.
void refuse_other_layers(const JsonKeys& keys);
/// The family of a model_type that no family has, by the keys of its attention and experts. Throws InputError
/// when there is none.
const Family& family_by_keys(const JsonKeys& keys);
/// Values of keys that such a file may leave out.
void add_unknown_defaults(Json& object);
/// read_family, whose InputError names the model_type.
void read_unknown(const Family& family, const JsonKeys& keys, const JsonKeys& with_nulls,
                  ModelConfig& config);
/// Throws InputError for a key of such a file that the family has not read, unless it changes no layer.
void refuse_unread_keys(const Family& family, const Json& object, const JsonKeys& keys,
                        const JsonKeys& with_nulls);
/// nullptr when there is none.
const Family* find_family(std::string_view architecture);
/// "llama, mistral, …".
std::string family_names();

/// The language model of a config.json of several models: text_config, or that of thinker_config. nullptr:
/// the file itself is the model. Templates: Json and OrderedJson.
template <class Value>
Value* nested_model(Value& file);
/// The tower of a file's vision_config in front of a language model of that width: of the Qwen2-VL,
/// Qwen2.5-VL or Qwen3-VL kind, else none. Missing keys have transformers' values. Throws InputError.
VisionTower read_vision_tower(const Json& file, const std::string& origin, std::int64_t hidden);
/// Sizes and switches of `family` from its config.json. Throws InputError.
void read_family(const Family& family, const JsonKeys& keys, const JsonKeys& with_nulls, ModelConfig& config);
void write_family(const Family& family, const ModelConfig& config, Json& out);
/// The key of "a|b" that is there, else a. Throws InputError when both are there and differ.
std::string key_of(const JsonKeys& keys, const char* names);

}  // namespace plumbline
