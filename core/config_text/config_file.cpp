#include "core/config_text/config_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/similar_name.hpp"
#include "core/base/text_input.hpp"
#include "core/base/yaml_text.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/launch_files/launch_file.hpp"
#include "core/launch_files/submitted_script.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kLongestPath = 400;

/// The keys that identify a Hugging Face config.json; no configuration has them.
constexpr const char* kModelKeys[] = {"model_type", "architectures"};

bool names_a_model(const std::string& source) {
  std::error_code ignored;
  if (fs::is_regular_file(source, ignored)) return false;
  return fs::is_directory(source, ignored) || find_preset(source) != nullptr;
}

/// True if a .json file is a model's. YAML would read it too, but not every JSON (a tab is no blank there).
bool is_model_json(const std::string& path, const std::string& text) {
  if (!path.ends_with(".json")) return false;
  const std::string name = printable(path, kLongestPath);
  const Json object = parse_json_object(without_python_numbers(text), name);
  const bool model = std::any_of(std::begin(kModelKeys), std::end(kModelKeys),
                                 [&](const char* key) { return object.contains(key); });
  if (!model && object.contains("hidden_size"))
    throw InputError(name + ": model_type: missing, expected the family of a config.json, such as llama");
  return model;
}

[[noreturn]] void refuse_missing(const std::string& source) {
  const std::vector<std::string> presets = preset_names();
  const bool path = source.find('/') != std::string::npos || source.ends_with(".yaml") ||
                    source.ends_with(".yml") || source.ends_with(".json");
  const std::string_view similar = similar_name(source, {presets.begin(), presets.end()});
  throw InputError(fmt::format(
      "{}: no such file{}; expected a YAML file, a preset of a model{}, or the folder of a Hugging Face "
      "config.json",
      printable(source, kLongestPath), path ? "" : ", folder or preset",
      path || similar.empty() ? "" : fmt::format(" (did you mean {}?)", similar)));
}

std::string why_unknown(const std::string& key, const std::string& origin) {
  try {
    get_config_key(key, origin);
  } catch (const InputError& unknown) {
    return unknown.what();
  }
  return "";
}

void refuse_ignored(const BesideFile& beside, const std::string& name) {
  LaunchFile none;
  none.beside = beside;
  none.require_ignored(name);
  if (!beside.run_script.empty())
    throw InputError(
        fmt::format("{}: found with --run-script, expected a shell script; remove the option", name));
}

}  // namespace

ConfigFile::ConfigFile(const std::string& source, const BesideFile& beside)
    : name_(printable(source, kLongestPath)) {
  std::error_code ignored;
  if (source.empty()) {
    name_ = "command line";
    refuse_ignored(beside, name_);
    root_ = std::make_shared<const YAML::Node>(YAML::NodeType::Map);
    return;
  }
  const bool starts = is_start_of_script(source) && !fs::exists(source, ignored);
  if (starts || source.starts_with("--")) {
    name_ = "--megatron-args";
    const OtherFile near = starts ? files_near(source) : OtherFile();
    if (const auto launch = read_launch_file(source, name_, near, beside)) take(*launch);
    return;
  }
  bool model = names_a_model(source);
  if (!model) {
    if (!fs::exists(source, ignored)) refuse_missing(source);
    if (const auto log = read_long_log(source, name_)) {
      take(*log);
      return;
    }
    const std::string text = beside.text != nullptr ? *beside.text : read_text_file(source, kMostLaunchBytes);
    model = is_model_json(source, text);
    if (const auto launch =
            model ? std::nullopt : read_launch_file(text, name_, files_near(source), beside)) {
      take(*launch);
      return;
    }
    if (!model) {
      folder_ = fs::path(source).parent_path().string();
      read_yaml(text);
      leave_out(beside);
      model = is_model_mapping(text);
    }
  }
  if (model) refuse_ignored(beside, name_);
  if (!model) return;
  folder_.clear();  // `source` is as the current folder has it
  YAML::Node root(YAML::NodeType::Map);
  root["model"] = source;
  root_ = std::make_shared<const YAML::Node>(root);
}

void ConfigFile::leave_out(const BesideFile& beside) {
  if (beside.ignored.empty()) return;
  YAML::Node left(YAML::NodeType::Map);
  BesideFile open = beside;
  for (const auto& entry : *root_) {
    if (!entry.first.IsScalar() || !beside.ignores(entry.first.Scalar())) {
      left.force_insert(entry.first, entry.second);
      continue;
    }
    open.ignored.erase(BesideFile::plain_name(entry.first.Scalar()));
    notes_.push_back(
        fmt::format("{}: {}: {}", origin(entry.first), printable(entry.first.Scalar()), kIgnored));
  }
  refuse_ignored(open, name_);
  root_ = std::make_shared<const YAML::Node>(left);
}

bool ConfigFile::is_model_mapping(const std::string& text) const {
  const YAML::Node& root = *root_;
  const auto found = std::find_if(std::begin(kModelKeys), std::end(kModelKeys),
                                  [&](const char* key) { return static_cast<bool>(root[key]); });
  if (found == std::end(kModelKeys)) return false;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '{') return true;
  throw InputError(
      fmt::format("{}: {}: found among the keys of a run, expected among those of its model; write model: "
                  "{{{}: ..., hidden_size: ...}}",
                  name_, *found, *found));
}

void ConfigFile::read_yaml(const std::string& text) {
  try {
    root_ = std::make_shared<const YAML::Node>(load_one_document(text, name_));
  } catch (const YAML::Exception& error) {
    throw InputError(
        fmt::format("{}:{}: not valid YAML: {}", name_, error.mark.line + 1, printable(error.msg, 200)));
  }
  if (root_->IsNull()) root_ = std::make_shared<const YAML::Node>(YAML::NodeType::Map);
  if (!root_->IsMap()) {
    throw InputError(fmt::format("{}: expected one YAML mapping, \"key: value\" lines", name_));
  }
}

void ConfigFile::take(const LaunchFile& launch) {
  launch.require_modelled();
  YAML::Node root(YAML::NodeType::Map);
  for (const LaunchSetting& setting : launch.settings) {
    root[setting.key] = setting.key == "model" ? YAML::Load(setting.value) : YAML::Node(setting.value);
    origins_[setting.key] = setting.origin;
  }
  root_ = std::make_shared<const YAML::Node>(root);
  notes_.push_back(fmt::format("{}: read as {}; {} arguments without effect on memory and time", name_,
                               launch.framework, launch.without_effect.size()));
  for (const LaunchRemark& each : launch.approximated)
    notes_.push_back(fmt::format("{}: {}: approximated: {}", each.place, each.name, each.reason));
  notes_.insert(notes_.end(), launch.notes.begin(), launch.notes.end());
  is_launch_file_ = true;
  model_sizes_ = launch.model_sizes;
  no_model_ = launch.no_model;
  num_microbatches_ = launch.num_microbatches;
  replicas_ = launch.replicas;
  replicas_origin_ = launch.replicas_origin;
}

void ConfigFile::check_model(const Settings& settings) const {
  if (!settings.contains("model") && !no_model_.empty()) throw InputError(no_model_);
}

void ConfigFile::check_replicas(std::int64_t data_parallel) const {
  if (data_parallel % replicas_ == 0) return;
  throw InputError(
      fmt::format("{}: found {} replicas in all, expected a divisor of the data-parallel size {}; change it "
                  "or the number "
                  "of GPUs",
                  replicas_origin_, replicas_, data_parallel));
}

std::string ConfigFile::origin(const YAML::Node& node) const {
  const YAML::Mark mark = node.Mark();
  return mark.is_null() ? name_ : fmt::format("{}:{}", name_, mark.line + 1);
}

ConfigText ConfigFile::value(const YAML::Node& key, const YAML::Node& node) const {
  ConfigText text{"", origin(key), folder_};
  if (const auto known = origins_.find(key.Scalar()); known != origins_.end()) text.origin = known->second;
  const std::string name = printable(key.Scalar());
  if (node.IsMap()) {
    text.text = json_of(node, fmt::format("{}: {}", text.origin, name))
                    .dump(-1, ' ', true, Json::error_handler_t::replace);
  } else if (node.IsScalar()) {
    text.text = node.Scalar();
  } else {
    const ConfigKey* known = find_config_key(key.Scalar());
    throw InputError(fmt::format("{}: {}: found {}, expected {}", text.origin, name,
                                 node.IsSequence() ? "a list" : "nothing",
                                 known == nullptr ? "a value" : known->expected));
  }
  return text;
}

Settings ConfigFile::settings(const YAML::Node& mapping, const std::set<std::string>& except) const {
  Settings settings;
  std::vector<std::string> unknown;  // all of them, told at once
  for (const auto& entry : mapping) {
    if (!entry.first.IsScalar()) {
      throw InputError(fmt::format("{}: expected the name of a key", origin(entry.first)));
    }
    if (except.contains(entry.first.Scalar())) continue;
    const std::string& written = entry.first.Scalar();
    if (find_config_key(written) == nullptr) {
      unknown.push_back(unknown.empty() ? why_unknown(written, origin(entry.first))
                                        : fmt::format("{}: {}", origin(entry.first), printable(written)));
      continue;
    }
    const ConfigKey& key = get_config_key(written, origin(entry.first));
    if (!settings.emplace(key.name, value(entry.first, entry.second)).second) {
      throw InputError(
          fmt::format("{}: {}: found twice, expected once; remove one", origin(entry.first), key.name));
    }
  }
  if (unknown.size() == 1) throw InputError(unknown.front());
  if (!unknown.empty())
    throw InputError(fmt::format("{}; unknown as well: {}; remove them, or leave each out with --ignore KEY",
                                 unknown.front(), fmt::join(unknown.begin() + 1, unknown.end(), ", ")));
  return settings;
}

Settings settings_of(const Overrides& overrides) {
  Settings settings;
  for (const Override& each : overrides) {
    if (!each.ignores && !each.runs && !each.argument)
      settings[get_config_key(each.key, each.origin).name] = {each.value, each.origin, ""};
  }
  return settings;
}

void merge(Settings& settings, const Settings& more) {
  for (const auto& [key, value] : more) settings[key] = value;
}

void put_over(Settings& file, const Settings& command_line) {
  const bool world = command_line.contains("world_size");
  const bool replicas = command_line.contains("data_parallel_size");
  if (world && !replicas) file.erase("data_parallel_size");
  if (replicas && !world) file.erase("world_size");
  merge(file, command_line);
}

RunConfig config_from(const Settings& settings, const std::string& origin, std::string& contradiction) {
  if (!settings.contains("model")) {
    throw InputError(fmt::format("{}: model: missing; expected {}, for example --model qwen2.5-0.5b", origin,
                                 find_config_key("model")->expected));
  }
  ConfigDraft draft;
  for (const auto& [name, value] : settings) {
    const ConfigKey& key = get_config_key(name, value.origin);
    key.parse(draft, value);
    if (!key.only_with_teacher || settings.contains("teacher")) continue;
    throw InputError(fmt::format(
        "{}: {}: found without a teacher; expected the key teacher as well (a model, or none), or "
        "remove this one",
        value.origin, key.name));
  }
  contradiction = settle_sizes(draft).value_or("");
  return draft.config;
}

}  // namespace plumbline
