#include "analysis/published/dialect/published_experts.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>

#include "analysis/published/dialect/dialect_columns.hpp"
#include "analysis/published/dialect/row_cells.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::array<std::string_view, 5> kLatentColumns = {"q_lora_rank", "kv_lora_rank", "qk_head_dim",
                                                            "qk_pos_emb_head_dim", "v_head_dim"};

class ExpertsReader {
 public:
  ExpertsReader(const Cells& cells, const std::string& origin) : cells_(cells), origin_(origin) {}

  const std::string* text(std::string_view column) const {
    const auto at = cells_.find(column);
    return at == cells_.end() ? nullptr : &at->second;
  }
  bool is_on(std::string_view column) const {
    const std::string* found = text(column);
    return found != nullptr && *found == "true";
  }
  /// `otherwise` without the column; negative: it must be there.
  std::int64_t integer(std::string_view column, std::int64_t least, std::int64_t most,
                       std::int64_t otherwise) const {
    const std::string* found = text(column);
    if (found == nullptr) {
      if (otherwise >= 0) return otherwise;
      throw InputError(
          fmt::format("{}: {}: missing; expected a number from {} to {}", origin_, column, least, most));
    }
    const double value =
        cell_number(*found, origin_, column, static_cast<double>(least), static_cast<double>(most));
    if (value != std::floor(value)) fail(column, "a whole number");
    return static_cast<std::int64_t>(value);
  }
  [[noreturn]] void fail(std::string_view column, const std::string& expected) const {
    const std::string* found = text(column);
    throw InputError(fmt::format("{}: {}: found \"{}\", expected {}", origin_, column,
                                 printable(found != nullptr ? *found : ""), expected));
  }

 private:
  const Cells& cells_;
  const std::string& origin_;
};

/// d of "([0]*d+[1]*m)", of d + m layers.
std::int64_t dense_layers(const ExpertsReader& reader, std::int64_t layers) {
  const std::string* pattern = reader.text("moe_layer_freq");
  if (pattern == nullptr || *pattern == "1") return 0;
  long long dense = 0;
  long long rest = 0;
  int end = 0;
  const int found = std::sscanf(pattern->c_str(), "([0]*%6lld+[1]*%6lld)%n", &dense, &rest, &end);
  const bool whole = found == 2 && end == static_cast<int>(pattern->size());
  if (!whole || dense < 0 || rest < 1 || dense + rest != layers) {
    reader.fail(
        "moe_layer_freq",
        fmt::format("1, or ([0]*d+[1]*m) with d dense layers in front of m others, {} in all", layers));
  }
  return dense;
}

void put_latent(const ExpertsReader& reader, ModelConfig& model) {
  if (!reader.is_on("multi_latent_attention")) return;
  constexpr std::int64_t kWidest = 1 << 16;
  LatentAttention& latent = model.latent;
  latent.query_rank = reader.integer("q_lora_rank", 0, kWidest, 0);
  latent.kv_rank = reader.integer("kv_lora_rank", 1, kWidest, -1);
  latent.nope_dim = reader.integer("qk_head_dim", 1, kWidest, -1);
  latent.rope_dim = reader.integer("qk_pos_emb_head_dim", 2, kWidest, -1);
  latent.value_dim = reader.integer("v_head_dim", 1, kWidest, -1);
  model.head_dim = latent.nope_dim + latent.rope_dim;
  model.rotary.dim = latent.rope_dim;
  model.kv_heads = model.heads;
  model.norms.qk = false;  // of the short vectors, which are normed anyway
}

void put_mixture(const ExpertsReader& reader, ModelConfig& model) {
  constexpr std::int64_t kMost = 1 << 16;
  constexpr std::int64_t kWidest = 1 << 24;
  Mixture mixture;
  mixture.experts = reader.integer("num_experts", 0, kMost, 0);
  if (mixture.experts == 0) return;
  mixture.top_k = reader.integer("moe_router_topk", 1, mixture.experts, 2);  // Megatron-LM's default
  mixture.shared = reader.integer("moe_shared_expert_intermediate_size", 0, kWidest, 0);
  mixture.shared_gated = false;
  mixture.first_dense = dense_layers(reader, model.layers);
  mixture.dense_ffn = mixture.first_dense > 0 ? model.ffn : 0;
  // DeepSeek-V3's own, whose published models have 256 experts (arXiv:2412.19437 §4.2).
  if (model.latent && mixture.experts == 256) mixture.groups = 8, mixture.chosen_groups = 4;
  model.ffn = reader.integer("moe_ffn_hidden_size", 1, kWidest, model.ffn);
  model.mixture = mixture;
}

}  // namespace

bool is_experts_column(std::string_view column) {
  return is_one_of(kMixtureColumns, column) || is_one_of(kLatentColumns, column) ||
         column == "mtp_num_layers";
}

std::vector<std::string> unmodelled_experts(const Cells& cells) {
  std::vector<std::string> features;
  for (const std::string_view column : kMixtureColumns) {
    const auto at = cells.find(column);
    if (at != cells.end() && at->second == "unstated") features.emplace_back(column);
  }
  const auto latent = cells.find("multi_latent_attention");
  if (latent != cells.end() && latent->second == "true" && !cells.contains("kv_lora_rank"))
    features.emplace_back("multi_latent_attention");
  // Padded to an even load, experts behave as under an even load.
  const auto capacity = cells.find("moe_expert_capacity_factor");
  const auto padded = cells.find("moe_pad_expert_input_to_capacity");
  if (capacity != cells.end() && capacity->second != "none") {
    const bool even = (capacity->second == "1" || capacity->second == "1.0") && padded != cells.end() &&
                      padded->second == "true";
    if (!even) features.emplace_back("moe_expert_capacity_factor");
  }
  return features;
}

void put_experts(const Cells& cells, const std::string& origin, ModelConfig& model) {
  const ExpertsReader reader(cells, origin);
  put_latent(reader, model);
  constexpr std::int64_t kMostModules = 16;
  model.prediction_modules = reader.integer("mtp_num_layers", 0, kMostModules, 0);
  put_mixture(reader, model);
}

}  // namespace plumbline
