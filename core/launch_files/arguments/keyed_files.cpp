#include "core/launch_files/arguments/keyed_files.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/base/yaml_text.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostArguments = 10'000;
constexpr int kMostLevels = 32;
constexpr double kLargestWhole = 9e15;

/// 5e8 as 500000000: a whole number, however it is written.
std::string number_text(double number) {
  if (std::floor(number) == number && std::abs(number) < kLargestWhole)
    return fmt::format("{}", static_cast<std::int64_t>(number));
  return fmt::format("{}", number);
}

/// A plain scalar of YAML; "5e8" and "1_000" are numbers.
std::string scalar_text(const std::string& text) {
  const bool power = text.find_first_not_of("0123456789+-.eE") == std::string::npos &&
                     text.find_first_of("eE") != std::string::npos;
  double number = 0;
  const char* const stop = text.data() + text.size();
  if (power) {
    const auto [end, error] = std::from_chars(text.data(), stop, number);
    if (error == std::errc() && end == stop) return number_text(number);
  }
  return text == "~" || text.empty() ? "None" : text;
}

/// Collects arguments up to their limit.
class ArgumentList {
 public:
  explicit ArgumentList(std::string name) : name_(std::move(name)) {}
  void add(const std::string& key, std::vector<std::string> values, int line) {
    values_ += values.size();
    if (all_.size() >= kMostArguments || values_ > kMostArguments)
      throw InputError(fmt::format("{}: found more than {} values, expected fewer", name_, kMostArguments));
    if (values.empty()) values.emplace_back("[]");
    all_.push_back({key, std::move(values), line > 0 ? fmt::format("{}:{}", name_, line) : name_});
  }
  void deeper(int level) const {
    if (level > kMostLevels)
      throw InputError(fmt::format("{}: found more than {} levels, expected fewer", name_, kMostLevels));
  }
  std::vector<LaunchArgument> take() { return std::move(all_); }

 private:
  std::string name_;
  std::vector<LaunchArgument> all_;
  std::size_t values_ = 0;
};

std::string joined(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

std::string toml_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* whole = node.as_integer()) return fmt::format("{}", whole->get());
  if (const auto* number = node.as_floating_point()) return number_text(number->get());
  if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
  return node.is_array() ? "a list" : "a value";
}

void walk_toml(const toml::table& table, const std::string& path, int level, ArgumentList& list) {
  list.deeper(level);
  for (const auto& [key, node] : table) {
    const std::string name = joined(path, std::string(key.str()));
    const int line = static_cast<int>(node.source().begin.line);
    if (const toml::table* inner = node.as_table()) {
      walk_toml(*inner, name, level + 1, list);
    } else if (const toml::array* values = node.as_array()) {
      std::vector<std::string> texts;
      for (const toml::node& each : *values) texts.push_back(toml_text(each));
      list.add(name, std::move(texts), line);
    } else {
      list.add(name, {toml_text(node)}, line);
    }
  }
}

/// Refuses a table's title that does not begin with a key. toml++ takes for granted that it does, and its
/// behaviour is undefined when it does not.
void check_titles(std::string_view text, const std::string& name) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  int number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto trim = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
    trim();
    if (!line.starts_with('[')) continue;
    while (line.starts_with('[')) {
      line.remove_prefix(1);
      trim();
    }
    const unsigned char first = line.empty() ? ' ' : static_cast<unsigned char>(line.front());
    const bool key =
        std::isalnum(first) != 0 || first == '_' || first == '-' || first == '"' || first == '\'';
    if (!key && first != ']')
      throw InputError(fmt::format("{}:{}: not valid TOML, expected keys and tables: found no key behind [",
                                   name, number));
  }
}

std::string json_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return "None";
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

void walk_json(const Json& object, const std::string& path, ArgumentList& list) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = joined(path, key);
    if (value.is_object()) {
      walk_json(value, name, list);
    } else if (value.is_array()) {
      std::vector<std::string> texts;
      for (const Json& each : value) texts.push_back(json_text(each));
      list.add(name, std::move(texts), 0);
    } else {
      list.add(name, {json_text(value)}, 0);
    }
  }
}

/// A list in a list is its items with commas between them.
std::string yaml_scalar(const YAML::Node& node) {
  if (node.IsNull()) return "None";
  if (node.IsSequence()) {
    std::string items;
    for (const auto& each : node)
      items += (items.empty() ? "" : ",") + (each.IsScalar() ? each.Scalar() : std::string("a list"));
    return items;
  }
  if (!node.IsScalar()) return "a mapping";
  return node.Tag() == "!" ? node.Scalar() : scalar_text(node.Scalar());
}

void walk_yaml(const YAML::Node& mapping, const std::string& path, int level, ArgumentList& list) {
  list.deeper(level);
  for (const auto& entry : mapping) {
    const std::string name = joined(path, entry.first.IsScalar() ? entry.first.Scalar() : "?");
    const int line = entry.first.Mark().line + 1;
    const YAML::Node& value = entry.second;
    if (value.IsMap()) {
      walk_yaml(value, name, level + 1, list);
    } else if (value.IsSequence()) {
      std::vector<std::string> texts;
      for (const auto& each : value) texts.push_back(yaml_scalar(each));
      list.add(name, std::move(texts), line);
    } else {
      list.add(name, {yaml_scalar(value)}, line);
    }
  }
}

}  // namespace

std::vector<LaunchArgument> toml_arguments(std::string_view text, const std::string& name) {
  ArgumentList list(name);
  check_titles(text, name);
  try {
    const toml::table root = toml::parse(text);
    walk_toml(root, "", 1, list);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}:{}: not valid TOML, expected keys and tables: {}", name,
                                 error.source().begin.line,
                                 printable(std::string(error.description()), 200)));
  }
  return list.take();
}

std::vector<LaunchArgument> json_arguments(const Json& object, const std::string& name) {
  ArgumentList list(name);
  walk_json(object, "", list);
  return list.take();
}

std::vector<LaunchArgument> yaml_arguments(const std::string& text, const std::string& name) {
  ArgumentList list(name);
  try {
    const YAML::Node root = load_one_document(text, name);
    if (!root.IsMap())
      throw InputError(fmt::format("{}: expected one YAML mapping, \"key: value\" lines", name));
    json_of(root, name);  // bounds what aliases expand to
    walk_yaml(root, "", 1, list);
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("{}:{}: not valid YAML, expected a mapping: {}", name, error.mark.line + 1,
                                 printable(error.msg, 200)));
  }
  return list.take();
}

}  // namespace plumbline
