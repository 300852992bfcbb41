// Fitting and out-of-memory cells, as a table over the key that varies most.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "bench/show/report/escape.hpp"
#include "bench/show/report/page_parts.hpp"
#include "bench/show/text/record_tables.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

bool has_budget(const Record& record) {
  for (const auto& [key, value] : record.config) {
    if (key == "memory_budget" && value != "0" && value != "none") return true;
  }
  return false;
}

bool concerns_memory(const Record& record) {
  if (!record.prediction && record.status != Status::oom) return false;
  return record.status == Status::oom || has_budget(record) ||
         (record.prediction && !record.prediction->fits);
}

/// "20" after "8": by number if both are numbers.
bool by_number(const std::string& a, const std::string& b) {
  const auto number = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (number(a) && number(b)) return a.size() != b.size() ? a.size() < b.size() : a < b;
  return a < b;
}

using Values = std::set<std::string, decltype(&by_number)>;

std::map<std::string, Values> values_by_key(const std::vector<const Record*>& records) {
  std::map<std::string, Values> values;
  for (const Record* record : records) {
    for (const auto& pair : record->config) {
      if (pair.first == "world_size") continue;  // follows from the parallel sizes
      values.try_emplace(pair.first, &by_number).first->second.insert(value_of(*record, pair.first));
    }
  }
  return values;
}

/// The batch size if it varies, else the key with most values; empty when nothing varies.
std::string column_key(const std::map<std::string, Values>& values) {
  std::string best;
  std::size_t most = 1;
  for (const auto& [key, found] : values) {
    if (key == "global_batch_size" && found.size() > 1) return key;
    if (found.size() > most) {
      best = key;
      most = found.size();
    }
  }
  return best;
}

std::string verdict(const char* who, bool fits, const std::string& words, double bytes) {
  return fmt::format("<span class=\"verdict {}\"><i aria-hidden=\"true\">{}</i> {} {}{}</span>",
                     fits ? "fits" : "oom", fits ? "\xe2\x9c\x93" : "\xe2\x9c\x95", who, words,
                     bytes > 0 ? fmt::format(", {}", readable_bytes(bytes)) : "");
}

std::string cell_html(const Record& record, std::size_t index) {
  const bool measured = record.measurement.has_value() ||
                        (record.status == Status::oom && !record.reason.starts_with("predicted"));
  std::string html = fmt::format("<a href=\"#cell-{0}\">cell {0}</a>", index + 1);
  if (record.prediction) {
    html += verdict("predicted", record.prediction->fits, verdict_text(*record.prediction),
                    static_cast<double>(record.prediction->memory.peak.value));
  }
  if (measured) {
    const bool fits = record.status != Status::oom;
    html += verdict("measured", fits, fits ? "fits" : "OOM",
                    record.measurement ? static_cast<double>(record.measurement->memory.peak.value) : 0);
  }
  if (record.prediction && measured && record.prediction->fits != (record.status != Status::oom))
    html += "<span class=\"verdict wrong\">prediction wrong</span>";
  return html;
}

}  // namespace

std::string fit_html(const std::vector<Record>& records) {
  std::vector<const Record*> shown;
  for (const Record& record : records) {
    if (concerns_memory(record)) shown.push_back(&record);
  }
  if (shown.empty()) return "";
  const auto values = values_by_key(shown);
  const std::string across = column_key(values);
  std::vector<std::string> down;
  for (const auto& [key, found] : values) {
    if (found.size() > 1 && key != across) down.push_back(key);
  }
  std::map<std::string, std::map<std::string, std::string>> grid;  // row, column
  std::vector<std::string> rows;
  Values columns(&by_number);
  for (const Record* record : shown) {
    std::string row = label_of(*record, down);
    if (row.empty()) row = "all";
    const std::string column = across.empty() ? "result" : value_of(*record, across);
    if (!grid.contains(row)) rows.push_back(row);
    columns.insert(column);
    grid[row][column] += cell_html(*record, static_cast<std::size_t>(record - records.data()));
  }
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"What fits\"><table "
      "class=\"fit\"><caption>Cells with a memory budget{}.</caption><thead><tr><th scope=\"col\">{}</th>",
      across.empty() ? "" : fmt::format(", by {}", html_escaped(across)),
      across.empty() ? "" : html_escaped(title_of(across)));
  for (const std::string& column : columns)
    html += fmt::format("<th scope=\"col\">{}</th>", html_escaped(printable(column, 32)));
  html += "</tr></thead><tbody>";
  for (const std::string& row : rows) {
    html += fmt::format("<tr><th scope=\"row\">{}</th>", html_escaped(row));
    for (const std::string& column : columns) {
      const auto found = grid[row].find(column);
      html += found == grid[row].end() ? "<td></td>" : fmt::format("<td>{}</td>", found->second);
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

}  // namespace plumbline
