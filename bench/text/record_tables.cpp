// The table for people.
#include "bench/text/record_tables.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include "bench/text/progress.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/statistics.hpp"
#include "core/base/text_input.hpp"
#include "core/config_text/config_keys.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestValue = 24;
constexpr std::string_view kUnknown = "-";

struct Column {
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

}  // namespace

std::string value_of(const Record& record, const std::string& key) {
  for (const auto& [name, value] : record.config) {
    if (name == key) return key == "memory_budget" ? budget_text(value) : value;
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

using Figure = std::function<std::optional<double>(const Record&)>;

Column figures(std::string title, int importance, const std::vector<Record>& records, const Figure& figure,
               const char* format) {
  Column column{std::move(title), importance, false, {}};
  for (const Record& record : records) {
    const std::optional<double> value = figure(record);
    column.cells.push_back(value && std::isfinite(*value) ? fmt::format(fmt::runtime(format), *value)
                                                          : std::string(kUnknown));
  }
  return column;
}

/// Median step above a second: seconds, else milliseconds.
bool in_seconds(const std::vector<Record>& records) {
  std::vector<double> steps;
  for (const Record& record : records) {
    if (record.measurement && !std::isnan(record.measurement->time.step.value)) {
      steps.push_back(record.measurement->time.step.value);
    }
    if (record.prediction) steps.push_back(record.prediction->time.step.value);
  }
  return !steps.empty() && upper_median(std::move(steps)) >= 1;
}

std::vector<Column> columns_of(const std::vector<Record>& records) {
  std::vector<Column> columns;
  Column number{"#", 0, false, {}};
  for (std::size_t i = 0; i < records.size(); ++i) number.cells.push_back(fmt::format("{}", i + 1));
  columns.push_back(std::move(number));
  for (const std::string& key : keys_to_show(records)) {
    Column column{title_of(key), 0, false, {}};
    for (const Record& record : records) {
      column.cells.push_back(printable(value_of(record, key), kLongestValue));
    }
    columns.push_back(std::move(column));
  }
  const bool seconds = in_seconds(records);
  const double scale = seconds ? 1 : 1e3;
  const std::string unit = seconds ? "s" : "ms";
  const char* step_format = seconds ? "{:.3f}" : "{:.1f}";
  const auto predicted = [](auto get) -> Figure {
    return [get](const Record& r) {
      return r.prediction ? std::optional<double>(get(*r.prediction)) : std::nullopt;
    };
  };
  const auto measured = [](auto get) -> Figure {
    return [get](const Record& r) {
      return r.measurement ? std::optional<double>(get(*r.measurement)) : std::nullopt;
    };
  };
  const auto error = [](auto get) -> Figure {
    return [get](const Record& r) { return r.error ? std::optional<double>(get(*r.error)) : std::nullopt; };
  };
  const auto memory = [](const auto& report) {
    return static_cast<double>(report.memory.peak.value) / kBytesPerGiB;
  };
  const auto step = [scale](const auto& report) { return report.time.step.value * scale; };
  const auto bubble = [](const auto& report) { return report.time.bubble_fraction; };
  const auto rate = [](const auto& report) { return report.throughput.tokens_per_s; };
  columns.push_back(figures("mem GiB pred", 9, records, predicted(memory), "{:.3f}"));
  columns.push_back(figures("meas", 9, records, measured(memory), "{:.3f}"));
  columns.push_back(figures("err %", 6, records,
                            error([](const ErrorReport& e) { return e.peak_memory * 100; }), "{:+.2f}"));
  // At the speed that the machine had when the cell was measured, where that is known.
  const auto judged = [](auto get) -> Figure {
    return [get](const Record& r) {
      if (r.probed) return std::optional<double>(get(*r.probed));
      return r.prediction ? std::optional<double>(get(*r.prediction)) : std::nullopt;
    };
  };
  columns.push_back(figures("step " + unit + " pred", 9, records, judged(step), step_format));
  columns.push_back(figures("meas", 9, records, measured(step), step_format));
  columns.push_back(figures("err %", 6, records,
                            error([](const ErrorReport& e) { return e.judged_step_time() * 100; }),
                            "{:+.1f}"));
  columns.push_back(figures("bubble pred", 8, records, judged(bubble), "{:.3f}"));
  columns.push_back(figures("meas", 8, records, measured(bubble), "{:.3f}"));
  columns.push_back(figures(
      "diff", 5, records, error([](const ErrorReport& e) { return e.judged_bubble_fraction(); }), "{:+.3f}"));
  const auto drops = [](const auto& report) -> double {
    if (report.expert_load.empty()) return NAN;
    return 100.0 * static_cast<double>(dropped_of(report.expert_load)) /
           static_cast<double>(std::max<std::int64_t>(1, tokens_of(report.expert_load)));
  };
  const bool dropping = std::any_of(records.begin(), records.end(), [&](const Record& record) {
    return record.measurement && drops(*record.measurement) > 0;
  });
  if (dropping) {
    columns.push_back(figures("drops % pred", 7, records, predicted(drops), "{:.2f}"));
    columns.push_back(figures("meas", 7, records, measured(drops), "{:.2f}"));
  }
  columns.push_back(figures("tokens/s", 4, records, measured(rate), "{:.0f}"));
  Column status{"status", 0, true, {}};
  for (const Record& record : records) {
    status.cells.push_back(std::string(name_of(record.status)) + (record.disturbed() ? ", disturbed" : ""));
  }
  columns.push_back(std::move(status));
  return columns;
}

/// Takes the least important columns away until the rest fits.
void fit(std::vector<Column>& columns, int width) {
  const auto total = [&] {
    std::size_t sum = 0;
    for (const Column& column : columns) sum += column.width() + 2;
    return sum - 2;
  };
  while (width > 0 && total() > static_cast<std::size_t>(width)) {
    const auto least = std::min_element(columns.begin(), columns.end(), [](const Column& a, const Column& b) {
      return (a.importance == 0 ? 100 : a.importance) < (b.importance == 0 ? 100 : b.importance);
    });
    if (least->importance == 0) return;
    const int gone = least->importance;
    std::erase_if(columns, [gone](const Column& column) { return column.importance == gone; });
  }
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
  std::vector<Column> columns = columns_of(records);
  fit(columns, style.width);
  std::vector<std::size_t> widths;
  widths.reserve(columns.size());
  for (const Column& column : columns) widths.push_back(column.width());
  const auto padded = [&](std::size_t column, const std::string& text) {
    return columns[column].left ? fmt::format("{:<{}}", text, widths[column])
                                : fmt::format("{:>{}}", text, widths[column]);
  };
  std::string table;
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
