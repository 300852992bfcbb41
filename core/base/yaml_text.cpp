#include "core/base/yaml_text.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

constexpr int kMaxDepth = 32;      // an alias may point at its own ancestor: a mapping without end
constexpr int kMaxNodes = 10'000;  // aliases of aliases make a small file expand to billions of nodes

/// A scalar by YAML's core schema; a quoted one is always a text.
Json scalar_to_json(const YAML::Node& node) {
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

Json expanded(const YAML::Node& node, const std::string& origin, int depth, int& nodes) {
  if (depth > kMaxDepth || ++nodes > kMaxNodes) {
    throw InputError(
        fmt::format("{}: expected at most {} levels and {} values", origin, kMaxDepth, kMaxNodes));
  }
  if (node.IsMap()) {
    Json object = Json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) throw InputError(fmt::format("{}: expected texts as keys", origin));
      object[entry.first.Scalar()] = expanded(entry.second, origin, depth + 1, nodes);
    }
    return object;
  }
  if (node.IsSequence()) {
    Json list = Json::array();
    for (const auto& entry : node) list.push_back(expanded(entry, origin, depth + 1, nodes));
    return list;
  }
  return node.IsScalar() ? scalar_to_json(node) : Json(nullptr);
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

/// Result of `read` for the only document of a text.
template <class Read>
Json parsed(const std::string& text, const std::string& path, const Read& read) {
  const std::string name = printable(path, 400);
  try {
    return read(load_one_document(text, name), name);
  } catch (const YAML::Exception& error) {
    throw InputError(
        fmt::format("{}:{}: not valid YAML: {}", name, error.mark.line + 1, printable(error.msg, 200)));
  }
}

}  // namespace

// yaml-cpp takes a stray token ("," at the start of a line) for the end of a document and never gets past it.
// Therefore the documents are counted before the tree is built: Load() would drop text after the first one,
// LoadAll() would never return.
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

Json json_of(const YAML::Node& node, const std::string& origin) {
  int nodes = 0;
  return expanded(node, origin, 1, nodes);
}

Json parse_yaml_object(const std::string& text, const std::string& path) {
  return parsed(text, path, [](const YAML::Node& root, const std::string& name) {
    if (root.IsNull()) return Json::object();
    if (!root.IsMap()) {
      throw InputError(fmt::format("{}: expected one YAML mapping, \"key: value\" lines", name));
    }
    return json_of(root, name);
  });
}

Json parse_yaml_list(const std::string& text, const std::string& path) {
  return parsed(text, path, [](const YAML::Node& root, const std::string& name) {
    if (!root.IsSequence()) {
      throw InputError(fmt::format("{}: expected one YAML list, lines that begin with \"- \"", name));
    }
    return json_of(root, name);
  });
}

}  // namespace plumbline
