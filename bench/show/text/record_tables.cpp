// The table for people.
#include "bench/show/text/record_tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "bench/show/text/cell_columns.hpp"
#include "bench/show/text/progress.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestValue = 24;
constexpr std::size_t kLongestModel = 40;  // "inline n_embd 3072, vocab_size 128000"
constexpr std::string_view kUnknown = "-";

struct Column {
  std::string name;   // that picks it; empty: always shown
  std::string group;  // above neighbouring columns
  std::string title;
  int importance = 0;  // columns of low importance go first; 0 never goes
  bool left = false;
  std::vector<std::string> cells;

  std::size_t width() const {
    std::size_t widest = title.size();
    for (const std::string& cell : cells) widest = std::max(widest, cell.size());
    return widest;
  }
};

/// A record holds a budget in bytes, 0 for none; a person reads "160 MiB".
std::string budget_text(const std::string& bytes) {
  const std::int64_t value = std::strtoll(bytes.c_str(), nullptr, 10);
  if (value == 0) return "none";
  return mebibytes({value});
}

/// "…/runs/profile.json" of an absolute path.
std::string short_path(const std::string& value) {
  if (!value.starts_with('/')) return value;
  const std::size_t last = value.find_last_of('/');
  const std::size_t place = last == 0 ? 0 : value.find_last_of('/', last - 1);
  return place == 0 ? value : "\xe2\x80\xa6" + value.substr(place);
}

}  // namespace

std::string value_of(const Record& record, const std::string& key) {
  for (const auto& [name, value] : record.config) {
    if (name == key) return key == "memory_budget" ? budget_text(value) : short_path(value);
  }
  return std::string(kUnknown);
}

std::vector<std::string> keys_to_show(const std::vector<Record>& records) {
  std::vector<std::string> keys = {"tensor_model_parallel_size", "pipeline_model_parallel_size",
                                   "data_parallel_size"};
  std::map<std::string, std::string> first;
  for (const Record& record : records) {
    for (const auto& [key, value] : record.config) {
      const auto [known, fresh] = first.try_emplace(key, value);
      const bool differs = !fresh && known->second != value;
      // The world size follows from the parallel sizes.
      if (differs && key != "world_size" && std::find(keys.begin(), keys.end(), key) == keys.end())
        keys.push_back(key);
    }
  }
  return keys;
}

std::string title_of(const std::string& key) {
  const ConfigKey* known = find_config_key(key);
  return known == nullptr || known->alias.empty() ? printable(key, kLongestValue) : known->alias;
}

namespace {

/// 0: for CSV and the page only. Without measurements there is room for more of the prediction.
int importance_of(const CellColumn& column, bool measured) {
  switch (column.quantity) {
    case CellQuantity::peak_memory:
    case CellQuantity::step_time:
      return column.side == ColumnSide::error ? 6 : 9;
    case CellQuantity::comparable:
      return measured ? 0 : 7;
    case CellQuantity::bubble:
      return column.side == ColumnSide::error ? 5 : 8;
    case CellQuantity::dropped_tokens:
    case CellQuantity::speed_up:
      return 7;
    case CellQuantity::throughput:
      return column.title == "tokens/s" ? 4 : 0;
    case CellQuantity::predicted_throughput:
      return measured ? 0 : 8;
    case CellQuantity::device_memory:
      return measured ? 0 : 7;
  }
  return 0;
}

/// The speed that a table's times are predicted for where a cell knows it.
AtSpeed speed_of(const std::vector<Record>& records) {
  const bool probed =
      std::any_of(records.begin(), records.end(), [](const Record& r) { return r.probed.has_value(); });
  return probed ? AtSpeed::current : AtSpeed::calibrated;
}

/// The same figure at calibrated speed, of cells that were not probed.
const CellColumn& calibrated(const CellColumn& column) {
  const auto columns = cell_columns();
  return *std::find_if(columns.begin(), columns.end(), [&](const CellColumn& other) {
    return other.quantity == column.quantity && other.side == column.side &&
           other.speed == AtSpeed::calibrated;
  });
}

Column figures(const CellColumn& from, int importance, const CellUnits& units,
               const std::vector<Record>& records) {
  Column column{
      std::string(name_of(from.quantity)), units.group(from), std::string(from.title), importance, false, {}};
  for (const Record& record : records) {
    const bool unprobed = from.speed == AtSpeed::current && !record.probed;
    const double value = (unprobed ? calibrated(from) : from).of(record);
    const std::string text = std::isfinite(value) ? units.text(from, value) : std::string(kUnknown);
    column.cells.push_back(text != kUnknown && is_guess(from, record) ? "guess " + text : text);
  }
  return column;
}

std::vector<Column> table_columns(const std::vector<Record>& records) {
  std::vector<Column> columns;
  Column number{"", "", "#", 0, false, {}};
  for (std::size_t i = 0; i < records.size(); ++i) number.cells.push_back(fmt::format("{}", i + 1));
  columns.push_back(std::move(number));
  for (const std::string& key : keys_to_show(records)) {
    Column column{title_of(key), "", title_of(key), 0, false, {}};
    for (const Record& record : records) {
      column.cells.push_back(
          printable(value_of(record, key), key == "model" ? kLongestModel : kLongestValue));
    }
    columns.push_back(std::move(column));
  }
  const CellUnits units(records);
  const AtSpeed speed = speed_of(records);
  const bool measured = any_measured(records);
  for (const CellColumn* column : columns_to_show(records)) {
    const bool other_speed = column->speed != AtSpeed::any && column->speed != speed;
    const int importance = importance_of(*column, measured);
    if (importance > 0 && !other_speed) columns.push_back(figures(*column, importance, units, records));
  }
  Column status{"", "", measured ? "status" : "verdict", 0, true, {}};
  for (const Record& record : records) {
    const bool verdict =
        !measured && record.prediction && (record.status == Status::ok || record.status == Status::oom);
    status.cells.push_back(
        (verdict ? verdict_text(*record.prediction) : std::string(name_of(record.status))) +
        (record.disturbed() ? ", disturbed" : ""));
  }
  columns.push_back(std::move(status));
  return columns;
}

/// First and behind the last of neighbouring columns under one label.
using Span = std::pair<std::size_t, std::size_t>;

std::vector<Span> spans_of(const std::vector<Column>& columns) {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const bool goes_on = !spans.empty() && columns[spans.back().first].group == columns[i].group;
    if (goes_on) ++spans.back().second;
    if (!goes_on) spans.emplace_back(i, i + 1);
  }
  return spans;
}

/// Width of the columns from first to last with the two blanks between them.
std::size_t width_of(const std::vector<std::size_t>& widths, Span span) {
  std::size_t sum = 0;
  for (std::size_t i = span.first; i < span.second; ++i) sum += widths[i] + 2;
  return sum - 2;
}

/// Width of every column; the first below a label that is wider than its columns takes the difference.
std::vector<std::size_t> widths_of(const std::vector<Column>& columns) {
  std::vector<std::size_t> widths;
  widths.reserve(columns.size());
  for (const Column& column : columns) widths.push_back(column.width());
  for (const Span& span : spans_of(columns)) {
    const std::size_t label = columns[span.first].group.size();
    const std::size_t below = width_of(widths, span);
    if (label > below) widths[span.first] += label - below;
  }
  return widths;
}

/// Takes the columns away that were not asked for.
void pick(std::vector<Column>& columns, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::vector<std::string> known;
  for (const Column& column : columns) {
    if (!column.name.empty() && (known.empty() || known.back() != column.name)) known.push_back(column.name);
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError(
          fmt::format("--columns: found {}, expected some of {}", printable(name), fmt::join(known, ", ")));
  }
  std::erase_if(columns, [&](const Column& column) {
    return !column.name.empty() && std::find(names.begin(), names.end(), column.name) == names.end();
  });
}

/// Takes the least important columns away until the rest fits.
void fit(std::vector<Column>& columns, int width) {
  while (width > 0 && width_of(widths_of(columns), {0, columns.size()}) > static_cast<std::size_t>(width)) {
    const auto least = std::min_element(columns.begin(), columns.end(), [](const Column& a, const Column& b) {
      return (a.importance == 0 ? 99 : a.importance) < (b.importance == 0 ? 99 : b.importance);
    });
    if (least->importance == 0) return;
    columns.erase(least);
  }
}

/// Labels above groups of columns, each in the middle; empty without any.
std::string group_line(const std::vector<Column>& columns, const std::vector<std::size_t>& widths) {
  std::string line;
  for (const Span& span : spans_of(columns))
    line += fmt::format("{:^{}}  ", columns[span.first].group, width_of(widths, span));
  line.erase(line.find_last_not_of(' ') + 1);
  return line.empty() ? line : line + "\n";
}

/// Speed that the table shows; nothing if nothing was measured.
std::string speed_line(const std::vector<Record>& records) {
  const auto any = [&](auto says) { return std::any_of(records.begin(), records.end(), says); };
  if (!any([](const Record& r) { return r.error.has_value(); })) return "";
  const bool all_guessed = !any([](const Record& r) { return r.prediction && !r.prediction->times_guessed; });
  if (all_guessed) return "";
  const AtSpeed speed = speed_of(records);
  std::string line = fmt::format("step time and bubble: predicted{}", speed_suffix(speed, records));
  if (speed == AtSpeed::calibrated) return line + "\n";
  if (any([](const Record& r) { return r.prediction && !r.probed; }))
    line += fmt::format(", cells without a probe{}", speed_suffix(AtSpeed::calibrated, records));
  return line + "; compare --format csv and html show both\n";
}

const char* color_of(Status status) {
  if (status == Status::ok) return "\033[32m";
  return status == Status::oom || status == Status::unsupported ? "\033[33m" : "\033[31m";
}

}  // namespace

TableStyle style_of_standard_output() {
  const char* no_color = std::getenv("NO_COLOR");
  return {terminal_width(stdout), isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == 0)};
}

std::string to_table(const std::vector<Record>& records, const TableStyle& style) {
  if (records.empty()) return "no records\n";
  std::vector<Column> columns = table_columns(records);
  pick(columns, style.columns);
  fit(columns, style.width);
  const std::vector<std::size_t> widths = widths_of(columns);
  const auto padded = [&](std::size_t column, const std::string& text) {
    return columns[column].left ? fmt::format("{:<{}}", text, widths[column])
                                : fmt::format("{:>{}}", text, widths[column]);
  };
  std::string table = group_line(columns, widths);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const bool last = i + 1 == columns.size();
    table += last ? columns[i].title + "\n" : padded(i, columns[i].title) + "  ";
  }
  for (std::size_t row = 0; row < records.size(); ++row) {
    for (std::size_t i = 0; i + 1 < columns.size(); ++i) table += padded(i, columns[i].cells[row]) + "  ";
    const std::string& status = columns.back().cells[row];
    table +=
        style.color ? fmt::format("{}{}\033[0m\n", color_of(records[row].status), status) : status + "\n";
  }
  table += speed_line(records);
  if (const std::string_view note = guess_note(records); !note.empty()) table += fmt::format("{}\n", note);
  for (std::size_t row = 0; row < records.size(); ++row) {
    if (records[row].disturbed()) {
      table +=
          fmt::format("#{} disturbed: {}\n", row + 1, what_disturbed(records[row].measurement->disturbance));
    }
    if (records[row].reason.empty()) continue;
    table += fmt::format("#{} {}: {}\n", row + 1, name_of(records[row].status),
                         printable(records[row].reason, 500));
  }
  return table;
}

}  // namespace plumbline
