#include "analysis/published/dialect/row_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "analysis/published/dialect/dialect_columns.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

bool is_dialect_column(std::string_view name) {
  return is_one_of(kModelColumns, name) || is_one_of(kLayoutColumns, name) ||
         is_one_of(kMeasuredColumns, name) || is_one_of(kMeaningColumns, name) ||
         is_one_of(kTextColumns, name) || find_feature_column(name) != nullptr;
}

std::string nearest_column(std::string_view name) {
  std::vector<std::string_view> known;
  for (const ConfigKey& key : config_keys()) {
    known.push_back(key.name);
    if (!key.alias.empty()) known.push_back(key.alias);
  }
  for (const auto& column : kModelColumns) known.push_back(column);
  for (const auto& column : kLayoutColumns) known.push_back(column);
  for (const auto& column : kMeasuredColumns) known.push_back(column);
  for (const auto& column : kMeaningColumns) known.push_back(column);
  for (const FeatureColumn& feature : kFeatureColumns) known.push_back(feature.key);
  return std::string(nearest_name(name, known));
}

class RowReader {
 public:
  RowReader(const PublishedTable& table, std::size_t row)
      : table_(table), row_(row), origin_(row_origin(table, row)) {}

  Cells cells(const SourceRun* run) const {
    Cells found;
    for (std::size_t i = 0; i < table_.columns.size(); ++i) {
      const std::string& text = table_.rows[row_][i];
      if (!text.empty()) put_cell(table_.columns[i], text, run, found);
    }
    if (run != nullptr) fill(run->defaults, found);
    fill(table_.header.defaults, found);
    return found;
  }

 private:
  std::string canonical(const std::string& name) const {
    if (const ConfigKey* key = find_config_key(name)) return key->name;
    if (is_dialect_column(name)) return name;
    throw InputError(
        fmt::format("{}: found the unknown column \"{}\", expected one such as {}; rename it, or say in "
                    "{}.yaml under columns what it means",
                    origin_, printable(name), nearest_column(name), table_.name));
  }

  void put(const std::string& name, const std::string& text, Cells& found) const {
    const std::string column = canonical(name);
    const auto [at, fresh] = found.emplace(column, text);
    if (!fresh && at->second != text) {
      throw InputError(fmt::format("{}: {}: found \"{}\" and \"{}\", expected one value", origin_, column,
                                   printable(at->second), printable(text)));
    }
  }

  void fill(const Cells& defaults, Cells& found) const {
    for (const auto& [name, text] : defaults) {
      if (!text.empty()) found.emplace(canonical(name), text);
    }
  }

  void put_cell(const std::string& name, const std::string& text, const SourceRun* run, Cells& found) const {
    const SourceColumn* meaning = nullptr;
    const auto& shared = table_.header.columns;
    if (run != nullptr) {
      if (const auto at = run->columns.find(name); at != run->columns.end()) {
        meaning = &at->second;
      } else if (only_of_another_run(name)) {
        return;
      }
    }
    if (meaning == nullptr) {
      if (const auto at = shared.find(name); at != shared.end()) meaning = &at->second;
    }
    if (meaning == nullptr) {
      put(name, text, found);
    } else if (!meaning->values.empty()) {
      put_meaning(name, text, *meaning, found);
    } else if (!meaning->key.empty()) {
      put(meaning->key, meaning->scale == 1 ? text : scaled(name, text, meaning->scale), found);
    }
  }

  bool only_of_another_run(const std::string& name) const {
    return std::any_of(table_.header.runs.begin(), table_.header.runs.end(),
                       [&](const SourceRun& other) { return other.columns.contains(name); });
  }

  void put_meaning(const std::string& name, const std::string& text, const SourceColumn& meaning,
                   Cells& found) const {
    const auto at = meaning.values.find(text);
    if (at == meaning.values.end()) {
      std::string known;
      for (const auto& [value, cells] : meaning.values) known += (known.empty() ? "" : ", ") + value;
      throw InputError(fmt::format("{}: {}: found \"{}\", expected one of those that {}.yaml explains: {}",
                                   origin_, printable(name), printable(text), table_.name,
                                   printable(known, 400)));
    }
    for (const auto& [column, value] : at->second) put(column, value, found);
  }

  std::string scaled(const std::string& name, const std::string& text, double scale) const {
    return fmt::format("{}", cell_number(text, origin_, name, -1e30, 1e30) * scale);
  }

  const PublishedTable& table_;
  std::size_t row_;
  std::string origin_;
};

}  // namespace

std::string row_origin(const PublishedTable& table, std::size_t row) {
  return fmt::format("{}.csv: row {}", table.name, row + 1);
}

double cell_number(const std::string& text, const std::string& origin, std::string_view column, double least,
                   double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most)) {
    throw InputError(fmt::format("{}: {}: found \"{}\", expected a number from {:g} to {:g}", origin,
                                 printable(column), printable(text), least, most));
  }
  return value;
}

std::vector<Cells> row_cells(const PublishedTable& table, std::size_t row) {
  const RowReader reader(table, row);
  std::vector<Cells> runs;
  // A file in the dialect itself has one run per row, regardless of its header's entries about the source's
  // layout.
  const bool own_layout =
      std::any_of(table.columns.begin(), table.columns.end(), [&](const std::string& name) {
        return std::any_of(table.header.runs.begin(), table.header.runs.end(),
                           [&](const SourceRun& run) { return run.columns.contains(name); });
      });
  if (!own_layout) return {reader.cells(nullptr)};
  runs.reserve(table.header.runs.size());
  for (const SourceRun& run : table.header.runs) runs.push_back(reader.cells(&run));
  return runs;
}

bool holds_runs(const PublishedTable& table) {
  const auto measured = [](const SourceColumns& columns, const std::string& name) {
    const auto at = columns.find(name);
    if (at == columns.end()) return is_one_of(kMeasuredColumns, name);
    return is_one_of(kMeasuredColumns, at->second.key);
  };
  return std::any_of(table.columns.begin(), table.columns.end(), [&](const std::string& name) {
    return measured(table.header.columns, name) ||
           std::any_of(table.header.runs.begin(), table.header.runs.end(),
                       [&](const SourceRun& run) { return measured(run.columns, name); });
  });
}

}  // namespace plumbline
