// Common fields of the table of families: sizes, activation, rotary embeddings.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/base/text_input.hpp"
#include "core/config/families/families.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxHidden = 1 << 20;
constexpr std::int64_t kMaxHeads = 1 << 14;
constexpr std::int64_t kMaxHeadDim = 1 << 12;
constexpr std::int64_t kMaxFfn = 1 << 22;
constexpr std::int64_t kMaxVocab = 1 << 24;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 30;

/// transformers' names. The first of an activation is the one that is written. `predicted`: the executed step
/// has no such gated or plain MLP; the activation is then another of as many bytes and FLOPs.
struct NamedActivation {
  const char* name;
  Activation activation;
  bool predicted = false;
};
constexpr NamedActivation kActivations[] = {
    {"silu", Activation::swiglu},
    {"swish", Activation::swiglu},
    {"gelu_pytorch_tanh", Activation::geglu},
    {"gelu_new", Activation::geglu},
    {"gelu_new", Activation::gelu},
    {"gelu_pytorch_tanh", Activation::gelu},
    {"gelu", Activation::gelu_erf},
    {"relu", Activation::relu},
    {"relu2", Activation::squared_relu},
    {"gelu", Activation::geglu, true},
    {"relu", Activation::swiglu, true},
    {"relu2", Activation::swiglu, true},
    {"silu", Activation::relu, true},
};

Activation read_activation(const Family& family, const JsonKeys& keys, ModelConfig& config) {
  const bool gated = is_gated(family.activation);
  if (*family.keys.activation == '\0' || keys.find(family.keys.activation) == nullptr)
    return family.activation;
  std::string found = keys.string(family.keys.activation);
  if (family.gelu_is_tanh && found == "gelu") found = "gelu_pytorch_tanh";
  std::vector<std::string> supported;
  supported.reserve(std::size(kActivations));
  for (const NamedActivation& known : kActivations) {
    if (is_gated(known.activation) != gated) continue;
    if (known.name == found) {
      if (known.predicted) config.predicted.add(fmt::format("{} with{} gate", found, gated ? " a" : "out a"));
      return known.activation;
    }
    supported.emplace_back(known.name);
  }
  keys.fail(family.keys.activation,
            fmt::format("found \"{}\", supported: {}", printable(found), fmt::join(supported, ", ")));
}

void read_llama3_scaling(const JsonKeys& rope, ModelConfig& config) {
  for (const char* key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    if (rope.find(key) == nullptr) rope.fail(key, "missing; rope_type llama3 needs it");
  }
  RopeScaling& scaling = config.rotary.scaling;
  scaling.factor = rope.number_or("factor", 1, 1e6, 1);
  scaling.low_freq_factor = rope.number_or("low_freq_factor", 1e-6, 1e6, 1);
  scaling.high_freq_factor = rope.number_or("high_freq_factor", 1e-6, 1e6, 4);
  scaling.original_max_positions = rope.integer("original_max_position_embeddings", kMaxPositions);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    rope.fail("high_freq_factor", fmt::format("found {}, expected more than low_freq_factor {}",
                                              scaling.high_freq_factor, scaling.low_freq_factor));
  }
  if (scaling.factor == 1) scaling = {};
}

/// Those that move frequencies alone; su is an older name of longrope.
constexpr std::string_view kPredictedTypes[] = {"yarn", "longrope", "su", "linear", "dynamic"};

void read_scaling(const JsonKeys& rope, const std::string& type, ModelConfig& config) {
  if (type == "llama3") return read_llama3_scaling(rope, config);
  if (std::find(std::begin(kPredictedTypes), std::end(kPredictedTypes), type) == std::end(kPredictedTypes)) {
    rope.fail("rope_type", fmt::format("found \"{}\", supported: default, llama3, {}", printable(type),
                                       fmt::join(kPredictedTypes, ", ")));
  }
  if (rope.find("factor") != nullptr) rope.number("factor", 0);
  config.rotary.scaling.predicted_type = type;
}

/// Names of a share of a head that is rotated: GPT-NeoX has the first.
constexpr const char* kShares[] = {"rotary_pct", "partial_rotary_factor"};

/// Share of a head that is rotated.
double read_rope(const Family& family, const JsonKeys& keys, ModelConfig& config) {
  constexpr double kMaxTheta = 1e15;
  double share = family.partial_rotary ? family.predicted.rotated : 1;
  const auto read_share = [&](const JsonKeys& from) {
    for (const char* key : kShares) {
      if (from.find(key) == nullptr) continue;
      const double found = from.number(key, 1e-3, 1);
      if (!family.partial_rotary && found != 1)
        from.fail(key, fmt::format("found {}, supported is 1 only in a {}", found, family.architecture));
      share = found;
      return;
    }
  };
  config.rotary.theta = keys.number_or("rope_theta", 1, kMaxTheta, config.rotary.theta);
  read_share(keys);
  if (family.partial_rotary && keys.find("rotary_dim") != nullptr) {  // MiniMax-M2
    const std::int64_t size = config.head_dim > 0 ? config.head_dim : config.hidden / config.heads;
    share = static_cast<double>(keys.integer("rotary_dim", std::max<std::int64_t>(size, 1))) /
            static_cast<double>(std::max<std::int64_t>(size, 1));
  }
  // transformers 5 keeps theta and scaling together under rope_parameters, older ones separately; if both are
  // given it takes the older.
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const Json* given = keys.find(name);
    if (given == nullptr || (given->is_object() && given->empty())) continue;
    const JsonKeys all = keys.object(name);
    // One for every kind of layers (layer_types): that of layers which see all keys.
    const JsonKeys rope = all.find("full_attention") == nullptr ? all : all.object("full_attention");
    config.rotary.theta = rope.number_or("rope_theta", 1, kMaxTheta, config.rotary.theta);
    read_share(rope);
    const std::string type = rope.string_or("rope_type", rope.string_or("type", "default"));
    // The three positions of multimodal models are one and the same in text.
    if (type == "default" || (type == "mrope" && rope.find("mrope_section") != nullptr)) break;
    read_scaling(rope, type, config);
    break;
  }
  return share;
}

void check_heads(const Family& family, const JsonKeys& keys, ModelConfig& config) {
  const std::string heads_key = key_of(keys, family.keys.heads);
  if (config.head_dim == 0) {
    if (config.hidden % config.heads != 0) {
      keys.fail(heads_key, fmt::format("found {}, expected a divisor of {} {}{}", config.heads,
                                       key_of(keys, family.keys.hidden), config.hidden,
                                       *family.keys.head_dim == '\0' ? "" : " (or give head_dim)"));
    }
    config.head_dim = config.hidden / config.heads;
    if (config.head_dim > kMaxHeadDim) {
      keys.fail(heads_key, fmt::format("found {}, which makes heads {} wide; expected at most {}",
                                       config.heads, config.head_dim, kMaxHeadDim));
    }
  }
  if (config.heads % config.kv_heads != 0) {
    keys.fail("num_key_value_heads", fmt::format("found {}, expected a divisor of num_attention_heads {}",
                                                 config.kv_heads, config.heads));
  }
  if (config.position.kind == Positions::rotary && config.head_dim % 2 != 0) {
    keys.fail("head_dim", fmt::format("found {}, expected an even number: rotary embeddings turn pairs",
                                      config.head_dim));
  }
}

/// Sets the rotated elements, once the head size is known.
void set_rotary_dim(const JsonKeys& keys, double share, ModelConfig& config) {
  if (share == 1) return;
  config.rotary.dim = static_cast<std::int64_t>(share * static_cast<double>(config.head_dim));
  if (config.rotary.dim < 2 || config.rotary.dim % 2 != 0) {
    keys.fail("partial_rotary_factor",
              fmt::format("found {}, which rotates {} of the {} elements of a head; expected an even number "
                          "of them",
                          share, config.rotary.dim, config.head_dim));
  }
}

}  // namespace

std::string key_of(const JsonKeys& keys, const char* names) {
  const char* bar = std::strchr(names, '|');
  if (bar == nullptr) return names;
  std::string first(names, bar);
  const Json* one = keys.find(first);
  const Json* other = keys.find(bar + 1);
  if (one != nullptr && other != nullptr && *one != *other) {
    keys.fail(bar + 1, fmt::format("found {} with {} {}, expected the same; leave one of them out",
                                   JsonKeys::shown(*other), first, JsonKeys::shown(*one)));
  }
  return one == nullptr && other != nullptr ? std::string(bar + 1) : first;
}

void read_family(const Family& family, const JsonKeys& keys, const JsonKeys& with_nulls,
                 ModelConfig& config) {
  const FamilyKeys& names = family.keys;
  const auto has = [](const char* name) { return *name != '\0'; };
  config.predicted.names = family.predicted.names;
  config.predicted.norms = family.predicted.norms;
  config.predicted.query_norm = family.predicted.query_norm;
  config.predicted.norm_vectors = family.predicted.norm_vectors;
  config.layers = keys.integer(key_of(keys, names.layers), kMaxLayers);
  config.hidden = keys.integer(key_of(keys, names.hidden), kMaxHidden);
  config.heads = keys.integer(key_of(keys, names.heads), kMaxHeads);
  config.kv_heads = config.heads;
  if (has(names.kv_heads)) {
    config.kv_heads = family.kv_heads_needed ? keys.integer(names.kv_heads, kMaxHeads)
                                             : keys.integer_or(names.kv_heads, kMaxHeads, config.heads);
  }
  if (has(names.head_dim))
    config.head_dim = keys.integer_or(key_of(keys, names.head_dim), kMaxHeadDim, family.head_dim);
  const std::int64_t usual = family.ffn_per_hidden * config.hidden;
  config.ffn = !has(names.ffn) ? usual
               : usual == 0    ? keys.integer(names.ffn, kMaxFfn)
                               : keys.integer_or(names.ffn, kMaxFfn, usual);
  config.vocab = keys.integer(names.vocab, kMaxVocab);
  config.position.max = family.max_positions == 0
                            ? keys.integer(key_of(keys, names.positions), kMaxPositions)
                            : keys.integer_or(names.positions, kMaxPositions, family.max_positions);
  config.norms.epsilon =
      has(names.epsilon) ? keys.number_or(names.epsilon, 0, 1, family.norm_epsilon) : family.norm_epsilon;
  config.embedding.tied = keys.boolean_or("tie_word_embeddings", family.tied_embeddings);
  config.activation = read_activation(family, keys, config);
  config.init_std = keys.number_or(names.init_std, 0, 10, 0.02);
  config.norms.kind = family.norm;
  config.position.kind = family.positions;
  config.biases.qkv = family.qkv_bias;
  config.biases.linear = family.linear_bias;
  config.norms.less_one = family.norm_less_one;
  config.embedding.norm = family.embedding_norm;
  config.norms.qk = family.qk_norm;
  config.norms.qk_rotated = family.norms_rotated;
  if (family.scaled_embedding) config.embedding.scale = std::sqrt(static_cast<double>(config.hidden));
  config.rotary.pairs = family.rotary_pairs;
  config.position.offset = family.position_offset;
  const double rotated = config.position.kind == Positions::rotary ? read_rope(family, keys, config) : 1;
  if (family.read != nullptr) family.read(keys, with_nulls, config);
  check_heads(family, keys, config);
  set_rotary_dim(keys, rotated, config);
}

void write_family(const Family& family, const ModelConfig& config, Json& out) {
  const FamilyKeys& names = family.keys;
  const auto set = [&](const char* name, const auto& value) {
    if (*name != '\0') out[std::string(name, std::strcspn(name, "|"))] = value;
  };
  set(names.layers, config.layers);
  set(names.hidden, config.hidden);
  set(names.heads, config.heads);
  set(names.kv_heads, config.kv_heads);
  set(names.head_dim, config.head_dim);
  set(names.ffn, config.ffn);
  set(names.vocab, config.vocab);
  set(names.positions, config.position.max);
  set(names.epsilon, config.norms.epsilon);
  set(names.init_std, config.init_std);
  for (const NamedActivation& known : kActivations) {
    if (known.activation != config.activation) continue;
    set(names.activation, known.name);
    break;
  }
  if (config.position.kind == Positions::rotary) {
    out["rope_theta"] = config.rotary.theta;
    if (family.partial_rotary) {
      out["partial_rotary_factor"] =
          static_cast<double>(config.rotated()) / static_cast<double>(config.head_dim);
    }
    if (config.rotary.scaling.factor != 1) {
      out["rope_scaling"] = {
          {"rope_type", "llama3"},
          {"factor", config.rotary.scaling.factor},
          {"low_freq_factor", config.rotary.scaling.low_freq_factor},
          {"high_freq_factor", config.rotary.scaling.high_freq_factor},
          {"original_max_position_embeddings", config.rotary.scaling.original_max_positions}};
    } else if (!config.rotary.scaling.predicted_type.empty()) {
      out["rope_scaling"] = {{"rope_type", config.rotary.scaling.predicted_type}};
    }
  }
  if (family.write != nullptr) family.write(config, out);
}

}  // namespace plumbline
