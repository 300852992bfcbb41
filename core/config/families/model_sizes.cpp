#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/families/families.hpp"
#include "core/config/model_config.hpp"

namespace plumbline {
namespace {

using M = ModelConfig;

struct SizeRow {
  std::string_view flag;
  std::int64_t (*of)(const M&);
  const char* FamilyKeys::*key = nullptr;  // by which it is changed; null: it is not
  bool (*has)(const M&) = nullptr;         // null: every model
};

bool has_experts(const M& m) {
  return static_cast<bool>(m.mixture);
}
bool has_mamba(const M& m) {
  return static_cast<bool>(m.hybrid.mamba);
}
bool is_latent(const M& m) {
  return static_cast<bool>(m.latent);
}
bool has_dense_layers(const M& m) {
  return m.feed_forward_layers() > m.mixture_layers();
}

constexpr SizeRow kRows[] = {
    {"--vocab-size", [](const M& m) { return m.vocab; }, &FamilyKeys::vocab},
    {"--num-layers", [](const M& m) { return m.layers; }, &FamilyKeys::layers},
    {"--hidden-size", [](const M& m) { return m.hidden; }, &FamilyKeys::hidden},
    {"--num-attention-heads", [](const M& m) { return m.heads; }, &FamilyKeys::heads},
    {"--num-query-groups", [](const M& m) { return m.kv_heads; }, &FamilyKeys::kv_heads,
     [](const M& m) { return !is_latent(m); }},
    {"--kv-channels", [](const M& m) { return m.head_dim; }, &FamilyKeys::head_dim,
     [](const M& m) { return !is_latent(m); }},
    {"--ffn-hidden-size", [](const M& m) { return m.dense_ffn(); }, &FamilyKeys::ffn, has_dense_layers},
    {"--num-experts", [](const M& m) { return m.mixture.experts; }},
    {"--moe-router-topk", [](const M& m) { return m.mixture.top_k; }, nullptr, has_experts},
    {"--moe-ffn-hidden-size", [](const M& m) { return m.ffn; }, nullptr, has_experts},
    {"--moe-shared-expert-intermediate-size", [](const M& m) { return m.mixture.shared; }, nullptr,
     has_experts},
    {"--q-lora-rank", [](const M& m) { return m.latent.query_rank; }, nullptr, is_latent},
    {"--kv-lora-rank", [](const M& m) { return m.latent.kv_rank; }, nullptr, is_latent},
    {"--qk-head-dim", [](const M& m) { return m.latent.nope_dim; }, nullptr, is_latent},
    {"--qk-pos-emb-head-dim", [](const M& m) { return m.latent.rope_dim; }, nullptr, is_latent},
    {"--v-head-dim", [](const M& m) { return m.latent.value_dim; }, nullptr, is_latent},
    {"--mamba-num-heads", [](const M& m) { return m.hybrid.mamba.heads; }, nullptr, has_mamba},
    {"--mamba-head-dim", [](const M& m) { return m.hybrid.mamba.head_dim; }, nullptr, has_mamba},
    {"--mamba-num-groups", [](const M& m) { return m.hybrid.mamba.groups; }, nullptr, has_mamba},
    {"--mamba-state-dim", [](const M& m) { return m.hybrid.mamba.state; }, nullptr, has_mamba},
};
constexpr std::string_view kPattern = "--hybrid-layer-pattern";

const SizeRow* find_row(const std::string& flag) {
  const auto* const found =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const SizeRow& row) { return row.flag == flag; });
  return found == std::end(kRows) ? nullptr : found;
}

/// Letters of a hybrid's layers, as Megatron-Core's hybrid_layer_pattern has them.
std::string pattern_of(const M& model) {
  std::string pattern;
  for (std::int64_t layer = 0; layer < model.layers && model.hybrid; ++layer) {
    const Mixer mixer = model.hybrid.mixer(layer);
    pattern += mixer == Mixer::mamba       ? 'M'
               : mixer == Mixer::attention ? '*'
               : model.has_experts(layer)  ? 'E'
                                           : '-';
  }
  return pattern;
}

[[noreturn]] void refuse(const ModelSize& size, const std::string& own, const M& model) {
  throw InputError(fmt::format("{}: found {}, expected {}, that of {}; change it or the model", size.origin,
                               printable(size.value, 100), own, model.name));
}

void check_pattern(const ModelSize& size, const M& model) {
  std::string given = size.value;
  std::erase(given, '|');  // between stages
  const std::string own = pattern_of(model);
  if (given != own) refuse(size, own.empty() ? "none" : own, model);
}

}  // namespace

bool is_model_size(const std::string& flag) {
  return flag == kPattern || find_row(flag) != nullptr;
}

ModelConfig with_sizes(const ModelConfig& model, const std::vector<ModelSize>& sizes,
                       std::vector<std::string>& changes) {
  Json file = Json::parse(to_config_json(model));
  const Family* const family = find_family(model.architecture);
  bool changed = false;
  for (const ModelSize& size : sizes) {
    if (size.flag == kPattern) {
      check_pattern(size, model);
      continue;
    }
    const SizeRow* const row = find_row(size.flag);
    if (row == nullptr || (row->has != nullptr && !row->has(model))) continue;
    std::int64_t number = 0;
    const char* const stop = size.value.data() + size.value.size();
    const auto [end, error] = std::from_chars(size.value.data(), stop, number);
    const std::int64_t own = row->of(model);
    if (error != std::errc() || end != stop || number < 0) refuse(size, "a whole number", model);
    if (number == own) continue;
    const std::string keys = row->key == nullptr || family == nullptr ? "" : family->keys.*(row->key);
    const bool other_layers = model.hybrid && row->key != &FamilyKeys::vocab;
    if (keys.empty() || other_layers) refuse(size, fmt::format("{}", own), model);
    file[keys.substr(0, keys.find('|'))] = number;
    changed = true;
    changes.push_back(fmt::format("{}: {} is taken, not the {} of {}", size.origin, number, own, model.name));
  }
  if (!changed) return model;
  ModelConfig other = parse_model_config(file.dump(), model.name);
  other.name = model.name;
  return other;
}

}  // namespace plumbline
