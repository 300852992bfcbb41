#include "core/config_text/config_key_kinds.hpp"

#include <filesystem>
#include <optional>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
void refuse_value(const ConfigText& value, const std::string& key, const std::string& expected) {
  throw InputError(
      fmt::format("{}: {}: found \"{}\", expected {}", value.origin, key, printable(value.text), expected));
}

namespace {

/// "; write 8192" for 8k or 8K; nothing for other texts.
std::string written_out(const std::string& text) {
  if (text.empty() || (text.back() != 'k' && text.back() != 'K')) return "";
  const auto number = whole_number<std::int64_t>(text.substr(0, text.size() - 1));
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  return number && *number > 0 && *number < kMost ? fmt::format("; write {}", 1024 * *number) : "";
}

}  // namespace

ConfigKey integer_key(const std::string& name, std::string alias, std::int64_t min, std::int64_t max,
                      const std::function<void(ConfigDraft&, std::int64_t)>& set,
                      const std::function<std::int64_t(const RunConfig&)>& get) {
  const std::string expected = fmt::format("a whole number from {} to {}", min, max);
  return {name, std::move(alias), expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto number = whole_number<std::int64_t>(value.text);
            if (!number || *number < min || *number > max)
              refuse_value(value, name, expected + written_out(value.text));
            set(draft, *number);
          },
          [=](const RunConfig& config) { return fmt::format("{}", get(config)); }};
}

ConfigKey number_key(const std::string& name, const Field<double>& field, double min, double max) {
  const std::string expected = fmt::format("a number from {} to {}", min, max);
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const auto number = whole_number<double>(value.text);
            if (!number || !(*number >= min && *number <= max)) refuse_value(value, name, expected);
            field.set(draft.config, *number);
          },
          [=](const RunConfig& config) { return fmt::format("{}", field.get(config)); }};
}

ConfigKey optional_number_key(const std::string& name, const Field<std::optional<double>>& field, double min,
                              double max) {
  const std::string expected = fmt::format("auto, or a number from {} to {}", min, max);
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            if (value.text == "auto") return field.set(draft.config, std::nullopt);
            const auto number = whole_number<double>(value.text);
            if (!number || !(*number >= min && *number <= max)) refuse_value(value, name, expected);
            field.set(draft.config, *number);
          },
          [=](const RunConfig& config) {
            const std::optional<double> value = field.get(config);
            return value ? fmt::format("{}", *value) : std::string("auto");
          }};
}

ConfigKey boolean_key(const std::string& name, const Field<bool>& field) {
  return {name, "", "true or false",
          [=](ConfigDraft& draft, const ConfigText& value) {
            if (value.text != "true" && value.text != "false") refuse_value(value, name, "true or false");
            field.set(draft.config, value.text == "true");
          },
          [=](const RunConfig& config) { return field.get(config) ? "true" : "false"; }};
}

ConfigKey optional_boolean_key(const std::string& name, const Field<std::optional<bool>>& field) {
  const char* const expected = "one of true, false, auto";
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            if (value.text == "auto") return field.set(draft.config, std::nullopt);
            if (value.text != "true" && value.text != "false") refuse_value(value, name, expected);
            field.set(draft.config, value.text == "true");
          },
          [=](const RunConfig& config) {
            const std::optional<bool> value = field.get(config);
            return !value ? "auto" : *value ? "true" : "false";
          }};
}

std::string absolute_path(const ConfigText& value) {
  return std::filesystem::absolute(std::filesystem::path(value.folder) / value.text)
      .lexically_normal()
      .string();
}

ConfigKey text_key(const std::string& name, const Field<std::string>& field, PathOr kind,
                   const std::string& expected) {
  return {name, "", expected,
          [=](ConfigDraft& draft, const ConfigText& value) {
            const bool plain = std::none_of(value.text.begin(), value.text.end(),
                                            [](unsigned char c) { return c < 0x20 || c == 0x7f; });
            if (!plain) refuse_value(value, name, expected + " without control characters");
            const bool is_path = kind == PathOr::path || value.text.find('/') != std::string::npos ||
                                 value.text.ends_with(".json") || value.text.ends_with(".csv");
            field.set(draft.config, is_path && !value.text.empty() ? absolute_path(value) : value.text);
          },
          [=](const RunConfig& config) { return field.get(config); }};
}

ModelConfig model_value(const ConfigText& value, const std::string& key) {
  if (value.text.starts_with('{')) {
    const std::string origin = fmt::format("{}: {}", value.origin, key);
    ModelConfig model = parse_model_config(value.text, origin);
    if (model.name == origin) model.name = "inline";
    return model;
  }
  std::error_code error;
  // A folder may be named like a model of the Hub.
  const bool is_folder =
      value.text.find('/') != std::string::npos && std::filesystem::exists(absolute_path(value), error);
  if (const ModelConfig* preset = is_folder ? nullptr : find_preset(value.text)) return *preset;
  ConfigText path = value;
  if (!value.text.empty() && std::filesystem::exists(absolute_path(value), error)) {
    path.text = absolute_path(value);
  }
  try {
    ModelConfig model = resolve_model(path.text);
    model.name = value.text;
    return model;
  } catch (const InputError& complaint) {
    // The file may be the model itself, which says so.
    const std::string place = value.origin + ": ";
    const std::string text = complaint.what();
    throw InputError(text.starts_with(place) ? text : place + text);
  }
}

}  // namespace plumbline
