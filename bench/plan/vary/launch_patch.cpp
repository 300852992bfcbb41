#include "bench/plan/vary/launch_patch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "bench/plan/vary/line_diff.hpp"
#include "bench/plan/vary/text_edits.hpp"
#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/config_text/load_config.hpp"
#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/launch_export.hpp"
#include "core/launch_files/launch_file.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestName = 400;
constexpr int kMostReads = 400;         // of the file, for one setting
constexpr std::size_t kMostOthers = 3;  // keys that follow from an argument besides its own

using Keys = std::vector<std::pair<std::string, std::string>>;

/// The file as it is now.
struct PatchedFile {
  std::string name;
  TextFormat format = TextFormat::yaml;
  std::string framework;                           // empty: keys of plumbline
  std::vector<std::string> siblings;               // arguments that new ones may stand beside
  std::map<std::string, std::string> argument_of;  // key → argument that gives it
};

/// "training.seq_len" of "train.toml:12: training.seq_len".
std::string argument_in(const std::string& origin) {
  const std::size_t colon = origin.rfind(": ");
  return colon == std::string::npos ? "" : origin.substr(colon + 2);
}

TextFormat format_of(const std::string& source, std::string_view text, const LaunchFile* launch) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return TextFormat::json;
  if (source.ends_with(".toml")) return TextFormat::toml;
  if (launch == nullptr) return TextFormat::yaml;
  const auto is_flag = [](const LaunchSetting& each) { return argument_in(each.origin).starts_with("--"); };
  const bool flags = std::any_of(launch->settings.begin(), launch->settings.end(), is_flag);
  if (flags || text.starts_with("#!")) return TextFormat::shell;
  return launch->framework == "torchtitan" ? TextFormat::toml : TextFormat::yaml;
}

/// Arguments that all commands have come first: new ones stand beside them.
void sort_siblings(std::vector<std::string>& siblings) {
  constexpr std::string_view kUsual[] = {"--micro-batch-size", "--global-batch-size", "--seq-length",
                                         "--num-layers"};
  const auto rank = [&](const std::string& name) {
    return std::find(std::begin(kUsual), std::end(kUsual), name) - std::begin(kUsual);
  };
  std::stable_sort(siblings.begin(), siblings.end(),
                   [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
}

PatchedFile opened(const std::string& source, const std::string& text, const BesideFile& beside) {
  PatchedFile file;
  file.name = printable(source, kLongestName);
  const std::optional<LaunchFile> launch = read_launch_file(text, file.name, files_near(source), beside);
  file.format = format_of(source, text, launch ? &*launch : nullptr);
  if (!launch) {
    for (const ConfigKey& key : config_keys()) file.siblings.push_back(key.name);
    return file;
  }
  file.framework = launch->framework;
  for (const LaunchSetting& each : launch->settings) {
    const std::string argument = argument_in(each.origin);
    if (argument.empty() || each.is_default) continue;
    file.argument_of[each.key] = argument;
    file.siblings.push_back(argument);
  }
  for (const LaunchRemark& each : launch->without_effect) file.siblings.push_back(each.name);
  sort_siblings(file.siblings);
  return file;
}

using Arguments = std::map<std::string, std::optional<std::string>>;

/// Flags of an exported command with their values.
Arguments flags_in(const std::string& text) {
  Arguments flags;
  std::istringstream words(text);
  std::string flag;
  for (std::string word; words >> word;) {
    if (word.starts_with("--")) {
      flag = word;
      flags[flag] = std::nullopt;
    } else if (!flag.empty() && word != "\\" && !word.ends_with(".py")) {
      std::optional<std::string>& value = flags[flag];
      value = value ? *value + " " + word : word;
    }
  }
  return flags;
}

std::string joined(const std::vector<std::string>& values) {
  if (values.size() == 1) return values.front();
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return fmt::format("[{}]", text);
}

Arguments keys_in(const std::vector<LaunchArgument>& arguments) {
  Arguments keys;
  for (const LaunchArgument& each : arguments) keys[each.name] = joined(each.values);
  return keys;
}

/// Arguments of a configuration in the words of a framework; nothing: they cannot be said, or not by an
/// export.
std::optional<Arguments> exported(const RunConfig& config, const std::string& framework) {
  constexpr const char* kName = "export";
  try {
    if (framework == "Megatron-LM") return flags_in(export_launch(config, "megatron-lm"));
    if (framework == "Megatron-Bridge")
      return keys_in(yaml_arguments(export_launch(config, "megatron-bridge"), kName));
    if (framework == "torchtitan") return keys_in(toml_arguments(export_launch(config, "torchtitan"), kName));
    if (framework == "DeepSpeed") return keys_in(yaml_arguments(export_launch(config, "deepspeed"), kName));
  } catch (const InputError&) {
    return std::nullopt;
  }
  return std::nullopt;
}

using Edits = std::vector<WantedArgument>;

/// Arguments that differ between exports of two configurations.
Edits export_edits(const RunConfig& before, const RunConfig& after, const std::string& framework) {
  const auto one = exported(before, framework);
  const auto other = exported(after, framework);
  Edits edits;
  if (!one || !other) return edits;
  for (const auto& [name, value] : *other) {
    const auto found = one->find(name);
    if (found == one->end() || found->second != value) edits.push_back({name, value});
  }
  for (const auto& [name, value] : *one) {
    if (!other->contains(name)) edits.push_back({name, std::nullopt, true});
  }
  return edits;
}

/// The list of a table's row has the key.
bool lists(const std::string& detail, const std::string& key) {
  std::size_t at = detail.find(key);
  for (; at != std::string::npos; at = detail.find(key, at + 1)) {
    const std::size_t end = at + key.size();
    const bool whole = (at == 0 || detail[at - 1] == ' ') &&
                       (end == detail.size() || detail[end] == ',' || detail[end] == '=');
    if (whole) return true;
  }
  return false;
}

/// Single edits that may give the key its value, likely ones first.
std::vector<Edits> named_edits(const PatchedFile& file, const std::string& key, const std::string& value) {
  std::vector<Edits> all;
  if (file.framework.empty()) {
    const ConfigKey* known = find_config_key(key);
    if (known == nullptr) return all;
    for (const std::string& name : {known->name, known->alias, known->flag()})
      if (!name.empty()) all.push_back({{name, value}});
    return all;
  }
  if (const auto found = file.argument_of.find(key); found != file.argument_of.end()) {
    for (const char* written : {value.c_str(), "true", "false"}) all.push_back({{found->second, written}});
    all.push_back({{found->second, std::nullopt, true}});
  }
  if (find_config_key(key) == nullptr) all.push_back({{key, value}});  // a variable of the script
  const std::string set = fmt::format("{}={}", key, value);
  for (const EmbeddedFile& table : launch_tables()) {
    for (const auto& [name, row] : argument_table(table.name).rows()) {
      const bool may = row.fate == ArgumentFate::key || row.fate == ArgumentFate::rule;
      if (!may || !lists(row.detail, key) || name.starts_with("--") != (file.format == TextFormat::shell))
        continue;
      if (row.detail == set) all.push_back({{name, std::nullopt}});
      if (row.detail.find('=') == std::string::npos)
        for (const char* written : {value.c_str(), "true", "false"}) all.push_back({{name, written}});
    }
  }
  return all;
}

/// Reads a text back.
class Reader {
 public:
  Reader(const LoadText& load, const Overrides& given) : load_(load), given_(given) {}

  /// Nothing if it is refused.
  std::optional<RunConfig> config(const std::string& text, const Overrides& more = {}) {
    ++reads_;
    Overrides all = given_;
    all.insert(all.end(), more.begin(), more.end());
    try {
      return load_(text, all);
    } catch (const InputError&) {
      return std::nullopt;
    }
  }
  /// Keys of the text that are not as wanted; nothing if it is refused.
  std::optional<Keys> others(const std::string& text, const Keys& wanted) {
    const auto config_now = config(text);
    if (!config_now) return std::nullopt;
    Keys found = describe(*config_now);
    std::erase_if(found, [&](const auto& each) {
      return std::find(wanted.begin(), wanted.end(), each) != wanted.end();
    });
    return found;
  }
  bool enough() const { return reads_ >= kMostReads; }
  void begin() { reads_ = 0; }

 private:
  const LoadText& load_;
  const Overrides& given_;
  int reads_ = 0;
};

/// Configuration that a text should give.
struct WantedConfig {
  std::string key;
  Keys keys;
  std::size_t most_others = 0;  // keys that the framework may derive otherwise, but not `key`
};

struct Found {
  std::string text;
  Keys others;  // derived otherwise
};

/// The text with all edits from `next` on, which then says what is wanted.
std::optional<Found> with_edits(const PatchedFile& file, const std::string& text, const Edits& edits,
                                std::size_t next, const WantedConfig& wanted, Reader& reader) {
  if (reader.enough()) return std::nullopt;
  if (next == edits.size()) {
    const auto others = reader.others(text, wanted.keys);
    const bool says = others && others->size() <= wanted.most_others &&
                      std::none_of(others->begin(), others->end(),
                                   [&](const auto& each) { return each.first == wanted.key; });
    return says ? std::optional(Found{text, *others}) : std::nullopt;
  }
  for (const std::string& edited : edited_texts(text, file.format, edits[next], file.siblings)) {
    if (auto found = with_edits(file, edited, edits, next + 1, wanted, reader)) return found;
  }
  return std::nullopt;
}

/// A size, which one argument gives; other values may need several.
bool is_number(const std::string& value) {
  return !value.empty() && value.find_first_not_of("0123456789") == std::string::npos;
}

/// The text with one setting in it; nothing: no edit that was tried gives it.
std::optional<Found> with_setting(const PatchedFile& file, const std::string& text, const Override& setting,
                                  Reader& reader) {
  const auto before = reader.config(text);
  const auto after = reader.config(text, {setting});
  if (!after) return std::nullopt;
  WantedConfig wanted{setting.key, describe(*after)};
  if (before && describe(*before) == wanted.keys) return Found{text, {}};
  std::vector<Edits> all = named_edits(file, setting.key, setting.value);
  if (before) {
    if (Edits edits = export_edits(*before, *after, file.framework); !edits.empty())
      all.insert(is_number(setting.value) ? all.end() : all.begin(), std::move(edits));
  }
  for (const std::size_t others : {std::size_t{0}, kMostOthers}) {
    wanted.most_others = others;
    reader.begin();
    for (const Edits& edits : all) {
      if (auto found = with_edits(file, text, edits, 0, wanted, reader)) return found;
    }
  }
  return std::nullopt;
}

}  // namespace

LaunchPatch patch_launch(const std::string& source, const Overrides& given, const Overrides& wanted,
                         const LoadText& load) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(source, ignored)) {
    throw InputError(
        fmt::format("--patch: found {}, expected a file as CONFIG: a launch script, YAML, TOML or "
                    "JSON; give one",
                    source.empty() ? "no CONFIG" : printable(source)));
  }
  const std::string before = read_text_file(source, kMostLaunchBytes);
  Overrides all = given;
  all.insert(all.end(), wanted.begin(), wanted.end());
  const PatchedFile file = opened(source, before, command_line(source, all).beside);
  Reader reader(load, given);
  LaunchPatch patch{before, "", {}};
  Overrides left = wanted;
  for (bool more = true; more && !left.empty();) {
    const std::size_t count = left.size();
    std::erase_if(left, [&](const Override& setting) {
      auto found = with_setting(file, patch.text, setting, reader);
      if (!found) return false;
      patch.text = std::move(found->text);
      for (const auto& [key, value] : found->others)
        patch.notes.push_back(
            fmt::format("{}: the file's {} becomes {} with it", setting.key, key, printable(value)));
      return true;
    });
    more = left.size() < count;  // a setting may be legal only after another
  }
  for (const Override& setting : left) {
    patch.notes.push_back(fmt::format(
        "{}: found no line of {} that gives {}, expected one; change the file by hand, or give it "
        "as an option",
        printable(setting.key), file.name, printable(setting.value)));
  }
  patch.diff = unified_diff(source, before, patch.text);
  return patch;
}

}  // namespace plumbline
