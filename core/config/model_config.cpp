#include "core/config/model_config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "core/base/error.hpp"
#include "core/base/similar_name.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {

std::int64_t ModelConfig::window_of(std::int64_t layer) const {
  const auto index = static_cast<std::size_t>(layer);
  return index < window.full_layers.size() && window.full_layers[index] ? 0 : window.size;
}

double ModelConfig::mean_keys(std::int64_t seq_length, std::int64_t prefix) const {
  const double full = keys_per_query(seq_length, 0, prefix);
  if (window.size == 0 || window.size >= seq_length) return full;
  const auto without =
      static_cast<double>(std::count(window.full_layers.begin(), window.full_layers.end(), true));
  const double share = without / static_cast<double>(layers);
  const double seen =
      predicted.chunked ? keys_per_chunk(seq_length, window.size) : keys_per_query(seq_length, window.size);
  return share * full + (1 - share) * seen;
}

double keys_per_chunk(std::int64_t seq_length, std::int64_t chunk) {
  const auto s = static_cast<double>(seq_length);
  const auto c = static_cast<double>(chunk);
  const auto rest = static_cast<double>(seq_length % chunk);
  return ((s - rest) * c + rest * rest) / (2 * s);
}

bool ModelConfig::has_experts(std::int64_t layer) const {
  if (!mixture) return false;
  const auto index = static_cast<std::size_t>(layer);
  return index < predicted.has_experts.size() ? predicted.has_experts[index] : layer >= mixture.first_dense;
}

std::int64_t ModelConfig::mixture_layers(std::int64_t first, std::int64_t count) const {
  if (!mixture) return 0;
  if (predicted.has_experts.empty()) {
    return std::clamp<std::int64_t>(first + count - mixture.first_dense, 0, count);
  }
  std::int64_t found = 0;
  for (std::int64_t layer = first; layer < first + count; ++layer) found += has_experts(layer) ? 1 : 0;
  return found;
}

std::int64_t ModelConfig::query_norm_weights() const {
  if (!norms.qk) return 0;
  switch (predicted.query_norm) {
    case QueryNorm::head:
      return 2 * head_dim;
    case QueryNorm::width:
      return (heads + kv_heads) * head_dim;
    case QueryNorm::plain:
      return 0;
  }
  return 0;
}

double keys_per_query(std::int64_t seq_length, std::int64_t window, std::int64_t prefix) {
  const auto s = static_cast<double>(seq_length);
  if (window == 0 || window >= seq_length) {
    const auto p = static_cast<double>(prefix);
    return s / 2 + p * p / (2 * s);
  }
  const auto w = static_cast<double>(window);
  return w - w * w / (2 * s);
}

ModelConfig resolve_model(const std::string& preset_or_path) {
  if (const ModelConfig* preset = find_preset(preset_or_path)) return *preset;
  std::error_code error;
  if (std::filesystem::is_directory(preset_or_path, error)) {
    return load_model_config((std::filesystem::path(preset_or_path) / "config.json").string());
  }
  if (std::filesystem::exists(preset_or_path, error)) return load_model_config(preset_or_path);
  refuse_other_layers(preset_or_path);
  const std::vector<std::string> names = preset_names();
  const std::string_view similar = similar_name(preset_or_path, {names.begin(), names.end()});
  throw InputError(fmt::format(
      "model: \"{}\" is neither a preset nor a file{}; expected one of {}, or the path of a "
      "Hugging Face config.json",
      printable(preset_or_path, 200), similar.empty() ? "" : fmt::format(" (did you mean {}?)", similar),
      fmt::join(names, ", ")));
}

std::optional<std::string> why_tensor_split_invalid(const ModelConfig& model, std::int64_t t) {
  const auto tensor = [&](const char* what, std::int64_t count) {
    return fmt::format("tensor_model_parallel_size: found {}, expected a divisor of the {} {} of {}", t,
                       count, what, model.name);
  };
  if (model.heads % t != 0) return tensor("attention heads", model.heads);
  if (model.kv_heads % t != 0 && t % model.kv_heads != 0) {
    return fmt::format(
        "tensor_model_parallel_size: found {}, expected a divisor or a multiple of the {} key/value heads of "
        "{}",
        t, model.kv_heads, model.name);
  }
  const Mamba& mamba = model.hybrid.mamba;
  if (mamba.heads % t != 0) return tensor("Mamba heads", mamba.heads);
  if (mamba && mamba.groups % t != 0) return tensor("Mamba groups", mamba.groups);
  if (model.ffn % t != 0) return tensor("feed-forward columns", model.ffn);
  if (model.mixture.shared % t != 0) return tensor("columns of the shared expert", model.mixture.shared);
  if (model.mixture.dense_ffn % t != 0) return tensor("columns of the dense layers", model.mixture.dense_ffn);
  return std::nullopt;
}

}  // namespace plumbline
