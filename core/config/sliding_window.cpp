#include "core/config/sliding_window.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMaxWindow = std::int64_t{1} << 30;
// What MistralConfig and Qwen2Config of transformers have where the file is silent.
constexpr std::int64_t kDefaultWindow = 4096;
constexpr std::int64_t kDefaultFullLayers = 28;

constexpr const char* kFull = "full_attention";
constexpr const char* kSliding = "sliding_attention";

/// 0 for null, which is transformers' None: no window.
std::int64_t window_in(const JsonKeys& with_nulls, std::int64_t where_silent = kDefaultWindow) {
  const Json* value = with_nulls.find("sliding_window");
  if (value == nullptr) return where_silent;
  return value->is_null() ? 0 : with_nulls.integer("sliding_window", kMaxWindow);
}

/// Whether each layer sees all keys, by `layer_types`; nothing without the key.
std::optional<std::vector<bool>> full_by_types(const JsonKeys& keys, std::int64_t layers) {
  const char* const key = "layer_types";
  if (keys.find(key) == nullptr) return std::nullopt;
  const std::vector<std::string> types = keys.strings(key);
  if (std::ssize(types) != layers) {
    keys.fail(key,
              fmt::format("found {} entries, expected one for each of the {} layers", types.size(), layers));
  }
  std::vector<bool> full;
  for (const std::string& type : types) {
    if (type != kFull && type != kSliding) {
      keys.fail(fmt::format("{}[{}]", key, full.size()),
                fmt::format("found \"{}\", expected {} or {}", printable(type), kFull, kSliding));
    }
    full.push_back(type == kFull);
  }
  return full;
}

/// The layers of a mistral, starcoder2 or phi3 are alike: transformers looks at no layer_types there.
SlidingWindow read_mistral(std::int64_t layers, const JsonKeys& keys, const JsonKeys& with_nulls,
                           std::int64_t where_silent) {
  const std::int64_t window = window_in(with_nulls, where_silent);
  const bool all = window == 0;
  const auto full = full_by_types(keys, layers);
  if (full && std::count(full->begin(), full->end(), all) != std::ssize(*full)) {
    keys.fail(
        "layer_types",
        all ? fmt::format("found {} in a mistral with sliding_window null, expected {} only", kSliding, kFull)
            : fmt::format("found {} in a mistral with sliding_window {}, expected {} only", kFull, window,
                          kSliding));
  }
  return {window, {}};
}

/// `zero_is_none`: of a window that is not used, as transformers writes it.
SlidingWindow read_qwen2(std::int64_t layers, bool zero_is_none, const JsonKeys& keys,
                         const JsonKeys& with_nulls) {
  const bool used = keys.boolean_or("use_sliding_window", false);
  const Json* given = with_nulls.find("sliding_window");
  const bool none = zero_is_none && !used && given != nullptr && *given == 0;
  const std::int64_t window = none ? 0 : window_in(with_nulls);
  const std::int64_t full_layers =
      with_nulls.integer_or("max_window_layers", 0, kMaxWindow, kDefaultFullLayers);
  auto full = full_by_types(keys, layers);
  const bool has_window = used && window > 0;
  if (full && !has_window && std::count(full->begin(), full->end(), false) > 0) {
    keys.fail(
        "layer_types",
        fmt::format("found {} with {}, expected a sliding_window with use_sliding_window true, or {} only",
                    kSliding, used ? "sliding_window null" : "use_sliding_window false", kFull));
  }
  if (!has_window) return {};
  if (!full) {
    full.emplace(static_cast<std::size_t>(layers), false);
    std::fill_n(full->begin(), std::min(full_layers, layers), true);
  }
  const std::int64_t without = std::count(full->begin(), full->end(), true);
  if (without == layers) return {};
  return {window, without > 0 ? std::move(*full) : std::vector<bool>{}};
}

bool has_qwen2_windows(const std::string& architecture) {
  return architecture == "qwen2" || architecture == "qwen2_moe" || architecture == "qwen3" ||
         architecture == "qwen3_moe";
}

}  // namespace

SlidingWindow read_sliding_window(const std::string& architecture, std::int64_t layers, const JsonKeys& keys,
                                  const JsonKeys& with_nulls) {
  if (architecture == "mistral") return read_mistral(layers, keys, with_nulls, kDefaultWindow);
  if (architecture == "starcoder2" || architecture == "phi3" || architecture == "mixtral")
    return read_mistral(layers, keys, with_nulls, 0);
  if (has_qwen2_windows(architecture))
    return read_qwen2(layers, architecture == "qwen2_moe", keys, with_nulls);
  return {};
}

void write_sliding_window(const std::string& architecture, const SlidingWindow& windows, Json& out) {
  const std::int64_t window = windows.sliding_window;
  if (architecture == "mistral" || architecture == "starcoder2" || architecture == "phi3" ||
      architecture == "mixtral")
    out["sliding_window"] = window > 0 ? Json(window) : Json(nullptr);
  if (!has_qwen2_windows(architecture) || window == 0) return;
  out["use_sliding_window"] = true;
  out["sliding_window"] = window;
  // Where the first layers are the ones without, the key that every version of transformers knows says it.
  const std::vector<bool>& full = windows.full_attention;
  if (std::is_sorted(full.rbegin(), full.rend())) {
    out["max_window_layers"] = std::count(full.begin(), full.end(), true);
    return;
  }
  Json types = Json::array();
  for (const bool all : full) types.push_back(all ? kFull : kSliding);
  out["layer_types"] = std::move(types);
}

}  // namespace plumbline
