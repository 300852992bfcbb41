#include "analysis/silicon/measured_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "core/base/error.hpp"

namespace plumbline::silicon {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

struct Place {
  const std::string& origin;
  int line;

  [[noreturn]] void refuse(std::string_view found, std::string_view expected) const {
    throw InputError(fmt::format("{}:{}: found {}, expected {}", origin, line, found, expected));
  }
  double positive(std::string_view text) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0) {
      refuse(text, "a number above 0");
    }
    return value;
  }
};

void read_header(MeasuredTable& table, std::string_view line, const Place& place) {
  const auto halves = split(line, '|');
  if (halves.size() != 2) place.refuse(line, "names of key columns, |, the last axis and its values");
  table.key_names = split(halves[0], ',');
  auto values = split(halves[1], ',');
  table.last_axis = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) table.last_values.push_back(place.positive(values[i]));
  if (table.last_values.empty()) place.refuse(line, "values of the last axis");
}

void read_times(MeasuredTable& table, std::string_view line, const Place& place) {
  const auto cells = split(line, ',');
  const std::size_t keys = table.key_names.size();
  if (cells.size() <= keys || cells.size() > keys + table.last_values.size()) {
    place.refuse(fmt::format("{} cells", cells.size()),
                 fmt::format("{} to {}", keys + 1, keys + table.last_values.size()));
  }
  MeasuredTable::Line& to = table.lines.emplace_back();
  to.keys.assign(cells.begin(), cells.begin() + static_cast<std::ptrdiff_t>(keys));
  to.seconds.reserve(cells.size() - keys);
  for (std::size_t i = keys; i < cells.size(); ++i) {
    to.seconds.push_back(cells[i].empty() ? std::numeric_limits<double>::quiet_NaN()
                                          : 1e-6 * place.positive(cells[i]));
  }
}

std::size_t column(const MeasuredTable& table, std::string_view name) {
  const auto found = std::find(table.key_names.begin(), table.key_names.end(), name);
  if (found == table.key_names.end()) throw InputError(fmt::format("measured table: no column {}", name));
  return static_cast<std::size_t>(found - table.key_names.begin());
}

double number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::map<std::string, MeasuredTable, std::less<>> parse_measured_tables(std::string_view text,
                                                                        const std::string& origin) {
  std::map<std::string, MeasuredTable, std::less<>> tables;
  MeasuredTable* table = nullptr;
  Place place{origin, 0};
  for (const std::string_view line : split(text, '\n')) {
    ++place.line;
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      if (line.back() != ']') place.refuse(line, "[NAME]");
      table = &tables[std::string(line.substr(1, line.size() - 2))];
    } else if (table == nullptr) {
      place.refuse(line, "[NAME] first");
    } else if (table->last_values.empty()) {
      read_header(*table, line, place);
    } else {
      read_times(*table, line, place);
    }
  }
  return tables;
}

std::optional<TimeGrid> grid_of(const MeasuredTable& table, const Keys& keys,
                                const std::vector<KeyAxis>& along, Spacing last,
                                const SecondsOfPoint& model) {
  std::vector<std::pair<std::size_t, std::string_view>> equal;
  equal.reserve(keys.size());
  for (const auto& [name, value] : keys) equal.emplace_back(column(table, name), value);
  std::vector<std::size_t> columns;
  columns.reserve(along.size());
  for (const auto& [name, spacing] : along) columns.push_back(column(table, name));

  std::vector<const MeasuredTable::Line*> lines;
  std::vector<std::set<double>> values(along.size());
  for (const MeasuredTable::Line& line : table.lines) {
    const bool chosen = std::all_of(equal.begin(), equal.end(),
                                    [&](const auto& key) { return line.keys[key.first] == key.second; });
    if (!chosen) continue;
    lines.push_back(&line);
    for (std::size_t d = 0; d < along.size(); ++d) values[d].insert(number(line.keys[columns[d]]));
  }
  if (lines.empty()) return std::nullopt;
  std::vector<Axis> axes;
  axes.reserve(along.size() + 1);
  for (std::size_t d = 0; d < along.size(); ++d) {
    axes.push_back({{values[d].begin(), values[d].end()}, along[d].second});
  }
  axes.push_back({table.last_values, last});
  TimeGrid grid(axes, model);
  std::vector<std::size_t> point(axes.size());
  for (const MeasuredTable::Line* line : lines) {
    for (std::size_t d = 0; d < along.size(); ++d) {
      const std::vector<double>& axis = axes[d].values;
      point[d] = static_cast<std::size_t>(
          std::lower_bound(axis.begin(), axis.end(), number(line->keys[columns[d]])) - axis.begin());
    }
    for (std::size_t i = 0; i < line->seconds.size(); ++i) {
      if (std::isnan(line->seconds[i])) continue;
      point.back() = i;
      grid.set(point, line->seconds[i]);
    }
  }
  grid.fill();
  return grid;
}

}  // namespace plumbline::silicon
