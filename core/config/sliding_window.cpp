#include "core/config/sliding_window.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMaxWindow = std::int64_t{1} << 30;
constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

/// 0 for null, which is transformers' None: no window.
std::int64_t window_in(const JsonKeys& with_nulls) {
  const Json* value = with_nulls.find("sliding_window");
  return value == nullptr || value->is_null() ? 0 : with_nulls.integer("sliding_window", kMaxWindow);
}

/// True for each layer that sees all keys, by `layer_types`; nothing without the key.
std::optional<std::vector<bool>> full_by_types(const JsonKeys& keys, std::int64_t layers,
                                               const char* others = kSliding) {
  const char* const key = "layer_types";
  if (keys.find(key) == nullptr) return std::nullopt;
  const std::vector<std::string> types = keys.strings(key);
  if (std::ssize(types) != layers) {
    keys.fail(key,
              fmt::format("found {} entries, expected one for each of the {} layers", types.size(), layers));
  }
  std::vector<bool> full;
  for (const std::string& type : types) {
    if (type != kFull && type != others) {
      keys.fail(fmt::format("{}[{}]", key, full.size()),
                fmt::format("found \"{}\", expected {} or {}", printable(type), kFull, others));
    }
    full.push_back(type == kFull);
  }
  return full;
}

/// The layers of a family are alike: transformers reads no layer_types there.
SlidingWindow read_alike(const std::string& architecture, std::int64_t layers, std::int64_t window,
                         const JsonKeys& keys) {
  const bool all = window == 0;
  const auto full = full_by_types(keys, layers);
  if (full && std::count(full->begin(), full->end(), all) != std::ssize(*full)) {
    keys.fail("layer_types", all ? fmt::format("found {} in a {} without a window, expected {} only",
                                               kSliding, architecture, kFull)
                                 : fmt::format("found {} in a {} with sliding_window {}, expected {} only",
                                               kFull, architecture, window, kSliding));
  }
  return {window, {}};
}

/// Rule for layers that the file does not name: those from max_window_layers on, or (qwen2_moe) every other
/// layer before.
std::vector<bool> full_by_rule(const std::string& architecture, std::int64_t layers, std::int64_t limit) {
  std::vector<bool> full;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    full.push_back(architecture == "qwen2_moe" ? layer % 2 != 0 || layer >= limit : layer < limit);
  return full;
}

SlidingWindow read_by_layer(const std::string& architecture, std::int64_t layers, bool used,
                            std::int64_t window, const JsonKeys& keys) {
  const std::int64_t limit = keys.integer("max_window_layers", 0, kMaxWindow);
  const auto named = full_by_types(keys, layers);
  const bool has_window = used && window > 0;
  if (named && !has_window && std::count(named->begin(), named->end(), false) > 0) {
    keys.fail(
        "layer_types",
        fmt::format("found {} with {}, expected a sliding_window with use_sliding_window true, or {} only",
                    kSliding, used ? "sliding_window null" : "use_sliding_window false", kFull));
  }
  if (!has_window) return {};
  std::vector<bool> full = named ? *named : full_by_rule(architecture, layers, limit);
  const std::int64_t without = std::count(full.begin(), full.end(), true);
  if (without == layers) return {};
  return {window, without > 0 ? std::move(full) : std::vector<bool>{}};
}

SlidingWindow read_qwen(const std::string& architecture, std::int64_t layers, const JsonKeys& keys,
                        const JsonKeys& with_nulls) {
  const bool used = keys.boolean("use_sliding_window");
  // qwen2_moe: the window of a file without one, as transformers writes it.
  const Json* given = keys.find("sliding_window");
  const bool none = architecture == "qwen2_moe" && !used && given != nullptr && *given == 0;
  const std::int64_t window = none ? 0 : window_in(with_nulls);
  if (architecture == "qwen2_moe" && used && window == 0)
    keys.fail("sliding_window", "found null with use_sliding_window true, expected a window");
  return architecture == "qwen3_moe" ? read_alike(architecture, layers, used ? window : 0, keys)
                                     : read_by_layer(architecture, layers, used, window, keys);
}

bool has_qwen_windows(const std::string& architecture) {
  return architecture == "qwen2" || architecture == "qwen2_moe" || architecture == "qwen3" ||
         architecture == "qwen3_moe";
}

bool has_mistral_windows(const std::string& architecture) {
  return architecture == "mistral" || architecture == "starcoder2" || architecture == "phi3" ||
         architecture == "mixtral";
}

}  // namespace

SlidingWindow read_sliding_window(const std::string& architecture, std::int64_t layers, const JsonKeys& keys,
                                  const JsonKeys& with_nulls) {
  if (has_mistral_windows(architecture)) return read_alike(architecture, layers, window_in(with_nulls), keys);
  if (has_qwen_windows(architecture)) return read_qwen(architecture, layers, keys, with_nulls);
  return {};
}

SlidingWindow read_periodic_windows(std::int64_t window, std::int64_t period, std::int64_t layers,
                                    const JsonKeys& keys, const char* others) {
  const auto named = full_by_types(keys, layers, others);
  std::vector<bool> full;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    full.push_back(named ? (*named)[static_cast<std::size_t>(layer)]
                         : period == 0 || (layer + 1) % period == 0);
  const std::int64_t without = std::count(full.begin(), full.end(), true);
  if (without == layers) return {};
  if (window == 0) {
    keys.fail("sliding_window",
              fmt::format("found none with {} layers that have a window, expected one", layers - without));
  }
  return {window, without > 0 ? std::move(full) : std::vector<bool>{}};
}

void write_sliding_window(const std::string& architecture, const SlidingWindow& windows, Json& out) {
  const std::int64_t window = windows.sliding_window;
  if (has_mistral_windows(architecture)) out["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  if (!has_qwen_windows(architecture) || window == 0) return;
  out["use_sliding_window"] = true;
  out["sliding_window"] = window;
  if (architecture == "qwen3_moe") return;
  // If the first layers are the ones without a window, the key that every version of transformers knows
  // expresses it.
  const std::vector<bool>& full = windows.full_attention;
  if (architecture != "qwen2_moe" && std::is_sorted(full.rbegin(), full.rend())) {
    out["max_window_layers"] = std::count(full.begin(), full.end(), true);
    return;
  }
  Json types = Json::array();
  for (std::int64_t layer = 0; layer < out["num_hidden_layers"].get<std::int64_t>(); ++layer)
    types.push_back(!full.empty() && full[static_cast<std::size_t>(layer)] ? kFull : kSliding);
  out["layer_types"] = std::move(types);
}

}  // namespace plumbline
