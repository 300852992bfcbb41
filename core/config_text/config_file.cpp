#include "core/config_text/config_file.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr int kMaxDepth = 32;      // an alias may point at its own ancestor: a mapping without end
constexpr int kMaxNodes = 10'000;  // aliases of aliases make a small file expand to billions of nodes

/// A scalar by YAML's core schema; a quoted one is always a text.
nlohmann::json scalar_to_json(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (text == "true" || text == "false") return text == "true";
  if (text.empty() || text == "~" || text == "null") return nullptr;
  const char* const end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, integer);
      error == std::errc() && at == end) {
    return integer;
  }
  const bool numeric = text.find_first_not_of("0123456789+-.eE") == std::string::npos;
  double number = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, number);
      numeric && error == std::errc() && at == end) {
    return number;
  }
  return text;
}

nlohmann::json to_json(const YAML::Node& node, const std::string& origin, int depth, int& nodes) {
  if (depth > kMaxDepth || ++nodes > kMaxNodes) {
    throw InputError(fmt::format("{}: expected at most {} levels and {} values in an inline mapping", origin,
                                 kMaxDepth, kMaxNodes));
  }
  if (node.IsMap()) {
    nlohmann::json object = nlohmann::json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) throw InputError(fmt::format("{}: expected texts as keys", origin));
      object[entry.first.Scalar()] = to_json(entry.second, origin, depth + 1, nodes);
    }
    return object;
  }
  if (node.IsSequence()) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& entry : node) list.push_back(to_json(entry, origin, depth + 1, nodes));
    return list;
  }
  return node.IsScalar() ? scalar_to_json(node) : nlohmann::json(nullptr);
}

/// Sees the documents of a YAML stream go by.
class DocumentCounter final : public YAML::EventHandler {
 public:
  int documents = 0;
  int last_line = 0;  // where the last one starts

  void OnDocumentStart(const YAML::Mark& mark) override {
    ++documents;
    last_line = mark.line + 1;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*at*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*at*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*at*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*at*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*at*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}
};

/// The only document of a YAML text. yaml-cpp takes a stray token ("," at the start of a line) for the end of
/// a document and never gets past it, so the documents are counted before the tree is built: Load() would
/// drop what follows the first one, LoadAll() would never return.
YAML::Node load_one_document(const std::string& text, const std::string& path) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentCounter counter;
  while (counter.documents < 2 && parser.HandleNextDocument(counter)) {
  }
  if (counter.documents > 1) {
    throw InputError(
        fmt::format("{}:{}: expected one YAML mapping, \"key: value\" lines; something that does not "
                    "belong to it starts here",
                    path, counter.last_line));
  }
  return YAML::Load(text);
}

}  // namespace

ConfigFile::ConfigFile(const std::string& path)
    : path_(path), folder_(std::filesystem::path(path).parent_path().string()) {
  const std::string text = read_text_file(path, kMaxFileBytes);
  try {
    root_ = std::make_shared<const YAML::Node>(load_one_document(text, path));
  } catch (const YAML::Exception& error) {
    throw InputError(
        fmt::format("{}:{}: not valid YAML: {}", path, error.mark.line + 1, printable(error.msg, 200)));
  }
  if (!root_->IsMap()) {
    throw InputError(fmt::format("{}: expected one YAML mapping, \"key: value\" lines", path));
  }
}

std::string ConfigFile::origin(const YAML::Node& node) const {
  return fmt::format("{}:{}", path_, node.Mark().line + 1);
}

ConfigText ConfigFile::value(const YAML::Node& key, const YAML::Node& node) const {
  ConfigText text{"", origin(key), folder_};
  const std::string name = printable(key.Scalar());
  if (node.IsMap()) {
    int nodes = 0;
    text.text = to_json(node, fmt::format("{}: {}", text.origin, name), 1, nodes)
                    .dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
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
  for (const auto& entry : mapping) {
    if (!entry.first.IsScalar()) {
      throw InputError(fmt::format("{}: expected the name of a key", origin(entry.first)));
    }
    if (except.contains(entry.first.Scalar())) continue;
    const ConfigKey& key = get_config_key(entry.first.Scalar(), origin(entry.first));
    if (!settings.emplace(key.name, value(entry.first, entry.second)).second) {
      throw InputError(fmt::format("{}: {}: given twice", origin(entry.first), key.name));
    }
  }
  return settings;
}

Settings settings_of(const Overrides& overrides) {
  Settings settings;
  for (const auto& [name, text] : overrides) {
    settings[get_config_key(name, "--set").name] = {text, "--set", ""};
  }
  return settings;
}

void merge(Settings& settings, const Settings& more) {
  for (const auto& [key, value] : more) settings[key] = value;
}

RunConfig config_from(const Settings& settings, std::string& contradiction) {
  ConfigDraft draft;
  for (const auto& [name, value] : settings) get_config_key(name, value.origin).parse(draft, value);
  contradiction = settle_sizes(draft).value_or("");
  return draft.config;
}

}  // namespace plumbline
