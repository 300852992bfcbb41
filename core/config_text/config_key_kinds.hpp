// Kinds of configuration keys: whole numbers, numbers, switches, choices and texts that stand in
// RunConfig.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/config_text/config_key.hpp"

namespace plumbline {

constexpr std::int64_t kMostRanks = 1 << 20;  // also of each parallel dimension

template <std::size_t N>
using KeyNames = std::array<std::string_view, N>;

/// The whole text as a number of type T; empty when it is not one or has trailing characters.
template <class T>
std::optional<T> whole_number(const std::string& text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Throws InputError: origin, key, found, expected.
[[noreturn]] void refuse_value(const ConfigText& value, const std::string& key, const std::string& expected);

/// A whole number in [min, max], stored by `set`.
ConfigKey integer_key(const std::string& name, std::string alias, std::int64_t min, std::int64_t max,
                      const std::function<void(ConfigDraft&, std::int64_t)>& set,
                      const std::function<std::int64_t(const RunConfig&)>& get);

/// A value of RunConfig, wherever it stands.
template <class T>
struct Field {
  using Value = T;
  std::function<void(RunConfig&, T)> set;
  std::function<T(const RunConfig&)> get;
};

/// The field that a path of members leads to: at(&RunConfig::batch, &BatchConfig::seq_length).
template <class... Members>
auto at(Members... members) {
  using T = std::remove_cvref_t<decltype((std::declval<RunConfig&>().*....*members))>;
  return Field<T>{[=](RunConfig& config, T value) { (config.*....*members) = std::move(value); },
                  [=](const RunConfig& config) { return (config.*....*members); }};
}

template <class T>
ConfigKey integer_key(const std::string& name, const std::string& alias, const Field<T>& field,
                      std::int64_t min, std::int64_t max) {
  return integer_key(
      name, alias, min, max,
      [=](ConfigDraft& draft, std::int64_t number) { field.set(draft.config, static_cast<T>(number)); },
      [=](const RunConfig& config) { return static_cast<std::int64_t>(field.get(config)); });
}

ConfigKey number_key(const std::string& name, const Field<double>& field, double min, double max);
/// A number in [min, max], or auto: derived from other settings.
ConfigKey optional_number_key(const std::string& name, const Field<std::optional<double>>& field, double min,
                              double max);
ConfigKey boolean_key(const std::string& name, const Field<bool>& field);
/// true, false, or auto: derived from other settings.
ConfigKey optional_boolean_key(const std::string& name, const Field<std::optional<bool>>& field);

/// One of `names`, stored as the enumerator (or text) of the same place.
template <class T, class Names>
ConfigKey choice_key(const std::string& name, const Field<T>& field, const Names& names) {
  const std::string expected = fmt::format("one of {}", fmt::join(names, ", "));
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto found = std::find(names.begin(), names.end(), value.text);
            if (found == names.end()) refuse_value(value, name, expected);
            if constexpr (std::is_same_v<T, std::string>) {
              field.set(draft.config, value.text);
            } else {
              field.set(draft.config, static_cast<T>(found - names.begin()));
            }
          },
          [=](const RunConfig& config) {
            if constexpr (std::is_same_v<T, std::string>) {
              return field.get(config);
            } else {
              return std::string(names[static_cast<std::size_t>(field.get(config))]);
            }
          }};
}

enum class PathOr { path, name };  // always a path, or a name unless it looks like a path

/// A text without control characters; a relative path becomes an absolute one.
ConfigKey text_key(const std::string& name, const Field<std::string>& field, PathOr kind,
                   const std::string& expected);

/// The path that a value names, relative to the folder of the file it stands in.
std::string absolute_path(const ConfigText& value);

/// Values that `model` and `teacher` expect.
constexpr const char* kModelExpected =
    "a preset, the path of a Hugging Face config.json, or an inline mapping";
/// The value of the keys `model` and `teacher`. Throws InputError.
ModelConfig model_value(const ConfigText& value, const std::string& key);

}  // namespace plumbline
