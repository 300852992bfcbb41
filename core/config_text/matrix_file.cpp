#include "core/config_text/matrix_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_key_kinds.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMaxCells = 100'000;

}  // namespace

bool same_values(const Settings& cell, const Settings& pattern) {
  return std::all_of(pattern.begin(), pattern.end(), [&](const auto& entry) {
    const auto found = cell.find(entry.first);
    return found != cell.end() && found->second.text == entry.second.text;
  });
}

Settings MatrixFile::base() const {
  return file_.settings(file_.root(),
                        {"matrix", "include", "exclude", "fit", "published", "hypotheses", "baseline"});
}

Settings MatrixFile::baseline() const {
  const YAML::Node node = file_.root()["baseline"];
  if (!node) return {};
  if (!node.IsMap() || node.size() == 0) {
    throw InputError(fmt::format(
        "{}: baseline: expected a mapping of keys that the matrix varies, such as {{precision: bf16}}",
        file_.origin(node)));
  }
  return file_.settings(node);
}

std::vector<Settings> MatrixFile::cells() const {
  std::set<std::string> varied;
  std::vector<Settings> cells = product(varied);
  exclude(cells, varied);
  const std::vector<Settings> more = entries("include");
  if (varied.empty() && !more.empty()) cells.clear();  // no lists: the entries are the cells
  const std::size_t originals = cells.size();
  for (const Settings& entry : more) {
    bool joined = false;
    Settings pattern;
    for (const auto& [key, value] : entry) {
      if (varied.contains(key)) pattern.emplace(key, value);
    }
    for (std::size_t i = 0; i < originals; ++i) {
      if (!same_values(cells[i], pattern)) continue;
      merge(cells[i], entry);
      joined = true;
    }
    if (!joined) cells.push_back(entry);
  }
  return cells;
}

/// The items of one list. A mapping under a configuration key is that key's value (an inline model); under
/// any other name its entries are keys of their own.
MatrixFile::Axis MatrixFile::axis(const YAML::Node& name, const YAML::Node& list) const {
  if (!name.IsScalar() || !list.IsSequence() || list.size() == 0) {
    throw InputError(fmt::format("{}: {}: expected a list of values", file_.origin(name),
                                 name.IsScalar() ? printable(name.Scalar()) : "matrix"));
  }
  const bool groups = find_config_key(name.Scalar()) == nullptr &&
                      std::all_of(list.begin(), list.end(), [](const auto& item) { return item.IsMap(); });
  Axis items;
  for (const auto& item : list) {
    if (groups) {
      items.push_back(file_.settings(item));
    } else {
      const ConfigKey& key = get_config_key(name.Scalar(), file_.origin(name));
      ConfigText value = file_.value(name, item);
      value.origin = file_.origin(item);
      items.push_back({{key.name, value}});
    }
  }
  return items;
}

std::vector<Settings> MatrixFile::product(std::set<std::string>& varied) const {
  std::vector<Settings> cells(1);
  const YAML::Node matrix = file_.root()["matrix"];
  if (!matrix) return cells;
  if (!matrix.IsMap()) {
    throw InputError(fmt::format("{}: matrix: expected a mapping of keys to lists", file_.origin(matrix)));
  }
  for (const auto& entry : matrix) {
    if (entry.first.IsScalar() && (entry.first.Scalar() == "include" || entry.first.Scalar() == "exclude")) {
      continue;
    }
    const Axis items = axis(entry.first, entry.second);
    std::set<std::string> keys;
    for (const Settings& item : items) {
      for (const auto& [key, value] : item) keys.insert(key);
    }
    for (const std::string& key : keys) {
      if (!varied.insert(key).second) {
        throw InputError(
            fmt::format("{}: {}: found in two lists of the matrix, expected one; remove it from one",
                        file_.origin(entry.first), key));
      }
    }
    if (cells.size() > kMaxCells / items.size()) {
      throw InputError(
          fmt::format("{0}: matrix: found more than {1} cells, expected at most {1}; shorten its lists",
                      file_.origin(matrix), kMaxCells));
    }
    std::vector<Settings> longer;
    longer.reserve(cells.size() * items.size());
    for (const Settings& cell : cells) {
      for (const Settings& item : items) {
        longer.push_back(cell);
        merge(longer.back(), item);
      }
    }
    cells = std::move(longer);
  }
  return cells;
}

void MatrixFile::exclude(std::vector<Settings>& cells, const std::set<std::string>& varied) const {
  for (const Settings& entry : entries("exclude")) {
    for (const auto& [key, value] : entry) {
      if (varied.contains(key)) continue;
      throw InputError(fmt::format("{}: exclude: found {}, expected a key that a list of the matrix varies",
                                   value.origin, key));
    }
    std::erase_if(cells, [&](const Settings& cell) { return same_values(cell, entry); });
  }
}

/// The mappings of `include` or `exclude`, next to `matrix` or under it.
std::vector<Settings> MatrixFile::entries(const std::string& name) const {
  std::vector<Settings> found;
  const YAML::Node matrix = file_.root()["matrix"];
  for (const YAML::Node& parent : {file_.root(), matrix}) {
    if (!parent || !parent.IsMap() || !parent[name]) continue;
    const YAML::Node list = parent[name];
    const auto refuse = [&](const YAML::Node& at) {
      throw InputError(fmt::format("{}: {}: expected a list of mappings", file_.origin(at), name));
    };
    if (!list.IsSequence()) refuse(list);
    for (const auto& item : list) {
      if (!item.IsMap() || item.size() == 0) refuse(item);
      found.push_back(file_.settings(item));
      if (found.size() > kMaxCells) refuse(list);
    }
  }
  return found;
}

}  // namespace plumbline
