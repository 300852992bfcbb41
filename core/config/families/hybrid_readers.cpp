// Fields of hybrid models. Sources: NVIDIA's configuration_nemotron_h.py, published with the weights, and
// granitemoehybrid of transformers; sizes of a mixer as in Megatron-Core's mamba_mixer.py.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/text_input.hpp"
#include "core/config/families/families.hpp"
#include "core/config/families/family_readers.hpp"
#include "core/config/families/predicted_readers.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostHeads = 1 << 14;
constexpr std::int64_t kMostWidth = 1 << 22;
constexpr std::int64_t kMostExperts = 1 << 12;
constexpr std::int64_t kMostTaps = 64;
constexpr std::int64_t kMostChunk = 1 << 16;
constexpr std::size_t kMostLayersListed = 10'000;
constexpr std::size_t kLongestKind = 60;

struct MambaKeys {
  const char* heads;
  const char* head_dim;
  const char* groups;
  const char* state;
  const char* taps;
  const char* chunk;
};
constexpr MambaKeys kNemotronKeys{"mamba_num_heads", "mamba_head_dim", "n_groups",
                                  "ssm_state_size",  "conv_kernel",    "chunk_size"};
constexpr MambaKeys kGraniteKeys{"mamba_n_heads", "mamba_d_head", "mamba_n_groups",
                                 "mamba_d_state", "mamba_d_conv", "mamba_chunk_size"};

void read_mamba(const JsonKeys& keys, const MambaKeys& names, ModelConfig& config) {
  Mamba& mamba = config.hybrid.mamba;
  mamba.heads = keys.integer(names.heads, kMostHeads);
  mamba.groups = keys.integer(names.groups, kMostHeads);
  mamba.state = keys.integer(names.state, kMostHeads);
  mamba.taps = keys.integer_or(names.taps, kMostTaps, 4);
  mamba.chunk = keys.integer_or(names.chunk, kMostChunk, 128);
  if (const Json* head = keys.find(names.head_dim); head != nullptr && *head == "auto") {  // of Granite
    const auto expanded = static_cast<std::int64_t>(keys.number_or("mamba_expand", 0, 64, 2) *
                                                    static_cast<double>(config.hidden));
    mamba.head_dim = expanded / mamba.heads;
  } else {
    mamba.head_dim = keys.integer(names.head_dim, kMostHeads);
  }
  if (mamba.heads % mamba.groups != 0) {
    keys.fail(names.groups, fmt::format("found {}, expected a divisor of the {} heads of {}", mamba.groups,
                                        mamba.heads, names.heads));
  }
}

/// Names of kinds of layers, and their letters in a pattern.
constexpr std::pair<std::string_view, char> kLayerKinds[] = {{"mamba", 'M'},     {"linear_attention", 'M'},
                                                             {"attention", '*'}, {"full_attention", '*'},
                                                             {"mlp", '-'},       {"moe", 'E'}};

/// The letters of a list of kinds.
std::string listed_pattern(const JsonKeys& keys, const char* key) {
  std::string pattern;
  for (const std::string& kind : keys.strings(key, kMostLayersListed)) {
    const auto* const found = std::find_if(std::begin(kLayerKinds), std::end(kLayerKinds),
                                           [&](const auto& each) { return each.first == kind; });
    if (found == std::end(kLayerKinds)) {
      keys.fail(key, fmt::format("found \"{}\", expected mamba, attention, mlp and moe",
                                 printable(kind, kLongestKind)));
    }
    pattern += found->second;
  }
  return pattern;
}

/// `key`: of a letter for each layer, or of a list of their kinds.
void read_pattern(const JsonKeys& keys, const char* key, ModelConfig& config) {
  const Json* const found_list = keys.find(key);
  const bool listed = found_list != nullptr && found_list->is_array();
  const std::string pattern = listed ? listed_pattern(keys, key) : keys.string(key);
  if (std::ssize(pattern) != config.layers) {
    keys.fail(key, fmt::format("found {} letters, expected one for each of the {} layers", pattern.size(),
                               config.layers));
  }
  std::vector<bool> experts;
  for (const char letter : pattern) {
    const auto found = std::string_view("M*-E").find(letter);
    if (found == std::string_view::npos)
      keys.fail(key, fmt::format("found \"{}\", expected M, *, - and E", printable(pattern)));
    const bool mixes = found < 2;
    config.hybrid.mixers.push_back(!mixes ? Mixer::none : letter == 'M' ? Mixer::mamba : Mixer::attention);
    config.hybrid.feed_forward.push_back(!mixes);
    experts.push_back(letter == 'E');
  }
  if (std::find(experts.begin(), experts.end(), true) != experts.end())
    config.predicted.has_experts = std::move(experts);
}

}  // namespace

void read_nemotron_h(const JsonKeys& keys, const JsonKeys& /*with_nulls*/, ModelConfig& config) {
  set_biases(keys.boolean_or("attention_bias", false), false, config);
  for (const char* key : {"mlp_bias", "use_bias", "mamba_proj_bias"}) keys.must_be(key, false, false);
  keys.must_be("use_conv_bias", true, true);
  read_mamba(keys, kNemotronKeys, config);
  const char* pattern = "hybrid_override_pattern";
  for (const char* key : {"layers_block_type", "layer_types"})
    if (keys.find(pattern) == nullptr && keys.find(key) != nullptr) pattern = key;
  read_pattern(keys, pattern, config);
  if (config.predicted.has_experts.empty()) return;
  Mixture& mixture = config.mixture;
  mixture.dense_ffn = config.ffn;
  config.ffn = keys.integer("moe_intermediate_size", kMostWidth);
  mixture.experts = keys.integer("n_routed_experts", kMostExperts);
  mixture.top_k = keys.integer("num_experts_per_tok", mixture.experts);
  mixture.normalized = keys.boolean_or("norm_topk_prob", true);
  mixture.shared = keys.integer_or("n_shared_experts", 0, kMostExperts, 1) *
                   keys.integer_or("moe_shared_expert_intermediate_size", 0, kMostWidth, config.ffn);
  mixture.shared_gated = false;
  mixture.scores = RouterScores::sigmoid;
  mixture.expert_bias = true;
  mixture.routed_scale = keys.number_or("routed_scaling_factor", 0, 1e6, 1);
  mixture.latent = keys.integer_or("moe_latent_size", 0, kMostWidth, 0);
  if (keys.find("n_group") != nullptr) read_groups(keys, mixture);
}

void write_nemotron_h(const ModelConfig& config, Json& out) {
  if (config.mixture) out["intermediate_size"] = config.mixture.dense_ffn;
}

/// Each layer has a mixer and a feed-forward layer.
void read_granite_mamba(const JsonKeys& keys, ModelConfig& config) {
  const Json* types = keys.find("layer_types");
  if (types == nullptr) types = keys.find("layers_block_type");
  if (types == nullptr || !types->is_array()) return;
  std::vector<Mixer> mixers;
  const auto is_mamba = [](const Json& type) { return type == "mamba" || type == "linear_attention"; };
  for (const Json& type : *types) mixers.push_back(is_mamba(type) ? Mixer::mamba : Mixer::attention);
  if (std::find(mixers.begin(), mixers.end(), Mixer::mamba) == mixers.end()) return;
  if (std::ssize(mixers) != config.layers) {
    keys.fail("layer_types", fmt::format("found {} entries, expected one for each of the {} layers",
                                         mixers.size(), config.layers));
  }
  for (const Json& type : *types) {
    if (!is_mamba(type) && type != "attention" && type != "full_attention")
      keys.fail("layer_types",
                fmt::format("found {}, expected \"mamba\" and \"attention\"", JsonKeys::shown(type)));
  }
  config.hybrid.mixers = std::move(mixers);
  config.predicted.add("Mamba mixers");
  read_mamba(keys, kGraniteKeys, config);
  if (keys.string_or("position_embedding_type", "nope") != "rope") config.position.kind = Positions::none;
}

}  // namespace plumbline
