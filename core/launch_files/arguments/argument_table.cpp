#include "core/launch_files/arguments/argument_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/base/error.hpp"
#include "core/base/similar_name.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

/// A name with underscores as dashes, to find one that is written otherwise.
std::string dashed(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

ArgumentRow row_of_section(const std::string& title, const std::string& table) {
  constexpr std::string_view kIdle = "without effect: ";
  constexpr std::string_view kNear = "approximated: ";
  constexpr std::string_view kOther = "not modelled: ";
  if (title == "key") return {ArgumentFate::key, ""};
  if (title == "rule") return {ArgumentFate::rule, ""};
  if (title == "model") return {ArgumentFate::model, ""};
  if (title.starts_with(kIdle)) return {ArgumentFate::without_effect, title.substr(kIdle.size())};
  if (title.starts_with(kNear)) return {ArgumentFate::approximated, title.substr(kNear.size())};
  if (title.starts_with(kOther)) return {ArgumentFate::not_modelled, title.substr(kOther.size())};
  throw InputError(fmt::format("{}: unknown section {}", table, title));
}

std::map<std::string, ArgumentTable, std::less<>> all_tables() {
  std::map<std::string, ArgumentTable, std::less<>> tables;
  for (const EmbeddedFile& each : launch_tables()) {
    const std::string name(each.name);
    tables.emplace(name, ArgumentTable(each.text, name));
  }
  return tables;
}

}  // namespace

ArgumentTable::ArgumentTable(std::string_view text, const std::string& name) {
  std::istringstream lines{std::string(text)};
  ArgumentRow section;
  bool of_names = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      const std::string title = line.substr(1, line.rfind(']') - 1);
      of_names = title == "names";
      if (!of_names) section = row_of_section(title, name);
      continue;
    }
    std::istringstream words(line);
    std::string flag;
    words >> flag;
    if (of_names) {
      std::string stands_for;
      words >> stands_for;
      const bool opposite = flag.ends_with("=False");
      names_[flag.substr(0, flag.size() - (opposite ? 6 : 0))] = {stands_for, opposite};
      continue;
    }
    ArgumentRow row = section;
    std::string rest;
    std::getline(words >> std::ws, rest);
    if (row.fate == ArgumentFate::key || row.fate == ArgumentFate::rule) {
      row.detail = rest;
    } else if (!rest.empty()) {
      std::istringstream values(rest);
      for (std::string value; values >> value;) row.harmless.push_back(value);
    }
    if (!rows_.emplace(flag, std::move(row)).second)
      throw InputError(fmt::format("{}: {}: found twice", name, flag));
  }
}

const ArgumentRow* ArgumentTable::find(const std::string& name) const {
  std::string wanted = name;
  auto found = rows_.find(wanted);
  if (found == rows_.end()) {
    // Another spelling of a known key is none of a section's other keys.
    std::string spelled = name;
    std::replace(spelled.begin(), spelled.end(), '-', '_');
    if (spelled != name && rows_.contains(spelled)) return nullptr;
  }
  while (found == rows_.end()) {
    const std::size_t dot = wanted.rfind('.');
    if (dot == std::string::npos) return nullptr;
    wanted.resize(dot);
    found = rows_.find(wanted + ".*");
  }
  return &found->second;
}

const ArgumentName* ArgumentTable::other_name(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &found->second;
}

const std::pair<const std::string, ArgumentName>* ArgumentTable::name_of(const std::string& flag) const {
  const auto found =
      std::find_if(names_.begin(), names_.end(), [&](const auto& each) { return each.second.flag == flag; });
  return found == names_.end() ? nullptr : &*found;
}

std::string ArgumentTable::nearest(const std::string& name) const {
  std::vector<std::string_view> known;
  for (const auto& [flag, row] : rows_) {
    if (dashed(flag) == dashed(name)) return flag;
    known.push_back(flag);
  }
  if (name.starts_with("--"))
    if (const ArgumentName* const other = other_name(name.substr(2)); other != nullptr && !other->opposite)
      return other->flag;
  return std::string(similar_name(name, known));
}

std::string ArgumentTable::unknown(const std::string& framework, const std::string& hint) {
  return fmt::format("unknown to {}'s table of arguments{}", framework,
                     hint.empty() ? "" : "; the nearest known one is " + hint);
}

const ArgumentTable& argument_table(std::string_view file) {
  static const std::map<std::string, ArgumentTable, std::less<>> tables = all_tables();
  const auto found = tables.find(file);
  if (found == tables.end()) throw Error(fmt::format("{}: no such table of arguments", file));
  return found->second;
}

}  // namespace plumbline
