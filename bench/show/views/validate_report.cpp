#include "bench/show/views/validate_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "analysis/published/comparable_runs.hpp"
#include "analysis/published/run_respects.hpp"
#include "bench/show/text/text_table.hpp"
#include "bench/show/views/published_errors.hpp"

namespace plumbline {
namespace {

/// Quantities in order of appearance, step times first.
std::vector<std::string> quantities_of(const ComparedTable& table) {
  std::vector<std::string> names;
  for (const ComparedRow& row : table.rows) {
    if (std::find(names.begin(), names.end(), row.quantity) == names.end()) names.push_back(row.quantity);
  }
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name == "step_s"; });
  return names;
}

/// A mean over nothing is no figure: null.
nlohmann::ordered_json json_of(const Errors& errors) {
  if (errors.rows == 0) {
    return {{"rows", 0},       {"mape", nullptr}, {"median", nullptr},
            {"bias", nullptr}, {"p90", nullptr},  {"worst", nullptr}};
  }
  return {{"rows", errors.rows}, {"mape", errors.mape}, {"median", errors.median},
          {"bias", errors.bias}, {"p90", errors.p90},   {"worst", errors.worst}};
}

/// Columns of errors behind one of names and one of quantities.
TextTable error_table(const std::string& names, bool regret) {
  TextTable table;
  table.column(names, true);
  table.column("quantity", true);
  for (const char* title : {"rows", "mape %", "median %", "bias %", "p90 %", "worst %"}) table.column(title);
  if (regret) table.column("regret %");
  return table;
}

std::vector<std::string> error_cells(const Errors& errors) {
  return {fmt::format("{}", errors.rows),
          fmt::format("{:.2f}", 100 * errors.mape),
          fmt::format("{:.2f}", 100 * errors.median),
          fmt::format("{:+.2f}", 100 * errors.bias),
          fmt::format("{:.2f}", 100 * errors.p90),
          fmt::format("{:+.2f}", 100 * errors.worst)};
}

/// "table: rows skipped: 1 not modelled yet, 1 unreadable"; empty if none was.
std::string skipped_line(const ComparedTable& table) {
  if (table.skipped.empty()) return "";
  int coming = 0;
  int unreadable = 0;
  for (const SkippedRow& row : table.skipped) {
    coming += row.unmodelled.empty() ? 0 : 1;
    unreadable += row.unreadable ? 1 : 0;
  }
  const int other = static_cast<int>(table.skipped.size()) - coming - unreadable;
  std::string parts;
  const auto add = [&](int count, const char* what) {
    if (count > 0) parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count, what);
  };
  add(coming, "not modelled yet");
  add(other, "self-contradictory");
  add(unreadable, "unreadable");
  return fmt::format("{}: rows skipped: {}\n", table.name, parts);
}

/// Number of rows that wait for each feature, the most frequent first.
std::string unmodelled_text(const std::vector<ComparedTable>& tables) {
  const std::map<std::string, int> counts = unmodelled_features(tables);
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text = sorted.empty() ? "" : "not modelled yet, rows per feature:\n";
  for (const auto& [feature, rows] : sorted) text += fmt::format("  {:>5}  {}\n", rows, feature);
  return text;
}

nlohmann::ordered_json skipped_json(const ComparedTable& table) {
  auto list = nlohmann::ordered_json::array();
  for (const SkippedRow& row : table.skipped) {
    list.push_back({{"row", row.row > 0 ? nlohmann::ordered_json(row.row) : nlohmann::ordered_json()},
                    {"reason", row.reason}});
  }
  return list;
}

nlohmann::ordered_json groups_json(const std::vector<ComparedTable>& tables) {
  nlohmann::ordered_json groups;
  for (const std::string& key : group_keys()) {
    auto& list = groups[key] = nlohmann::ordered_json::array();
    for (const ComparedGroup& group : compare_groups(tables, key)) {
      nlohmann::ordered_json entry = {{"value", group.value}, {"quantity", group.quantity}};
      entry.update(json_of(group.errors));
      list.push_back(std::move(entry));
    }
  }
  return groups;
}

/// The row's cells but its texts and measured values.
nlohmann::ordered_json settings_json(const Cells& cells) {
  auto settings = nlohmann::ordered_json::object();
  for (const auto& [key, value] : cells) {
    if (is_setting(key)) settings[key] = value;
  }
  return settings;
}

/// Units are part of the quantities' names: step_s, peak_bytes.
std::string rows_text(const ComparedTable& table) {
  if (table.rows.empty() && table.skipped.empty()) return "";
  TextTable all;
  all.column("row", true);
  all.column("quantity", true);
  for (const char* title : {"predicted", "published", "error %"}) all.column(title);
  std::string below;
  for (const ComparedRow& row : table.rows) {
    all.row({row.label, row.quantity, fmt::format("{:.5g}", row.predicted),
             fmt::format("{:.5g}", row.published), fmt::format("{:+.2f}", 100 * row.error())});
    if (!row.choice.empty())
      below += fmt::format("  {}: not stated, predicted with {}; range: {:.5g} to {:.5g}\n", row.label,
                           row.choice, row.low(), row.high());
  }
  for (const SkippedRow& row : table.skipped)
    if (row.row > 0) below += fmt::format("  row {} skipped: {}\n", row.row, row.reason);
  return fmt::format("\n{}\n", table.name) + (table.rows.empty() ? "" : all.text()) + below;
}

}  // namespace

std::string validation_text(const std::vector<ComparedTable>& tables, bool rows) {
  TextTable all = error_table("table", true);
  std::string skipped;
  for (const ComparedTable& table : tables) {
    if (table.skipped.size() == 1 && table.skipped.front().row == 0) {
      skipped += fmt::format("{}: {}\n", table.name, rows ? table.skipped.front().reason : "unreadable");
      continue;
    }
    for (const std::string& quantity : quantities_of(table)) {
      std::vector<std::string> cells = error_cells(errors_of(table.rows, quantity));
      const bool with_regret = quantity == "step_s" && table.regret;
      cells.insert(cells.begin(), {table.name, quantity});
      cells.push_back(with_regret ? fmt::format("{:.2f}", 100 * *table.regret) : "");
      all.row(std::move(cells));
    }
    skipped += skipped_line(table);
  }
  std::string text = all.text() + skipped;
  if (rows) {
    for (const ComparedTable& table : tables) text += rows_text(table);
  }
  return text + unmodelled_text(tables);
}

std::vector<std::string> unreadable_lines(const std::vector<ComparedTable>& tables) {
  std::vector<std::string> lines;
  for (const ComparedTable& table : tables) {
    std::vector<std::pair<std::string, std::vector<int>>> failures;  // with the rows that have them
    for (const SkippedRow& row : table.skipped) {
      if (!row.unreadable) continue;
      const std::string place = fmt::format("{}.csv: row {}: ", table.name, row.row);
      const std::string what = row.reason.starts_with(place) ? row.reason.substr(place.size()) : row.reason;
      auto same = std::find_if(failures.begin(), failures.end(),
                               [&](const auto& failure) { return failure.first == what; });
      if (same == failures.end()) same = failures.insert(same, {what, {}});
      if (same->second.empty() || same->second.back() != row.row) same->second.push_back(row.row);
    }
    for (const auto& [what, rows] : failures) {
      constexpr std::size_t kMostNamed = 10;
      if (rows.front() == 0) {
        lines.push_back(what);
        continue;
      }
      const std::size_t named = std::min(rows.size(), kMostNamed);
      lines.push_back(
          fmt::format("{}.csv: row{} {}{}: {}", table.name, rows.size() == 1 ? "" : "s",
                      fmt::join(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                      rows.size() > named ? fmt::format(" and {} more", rows.size() - named) : "", what));
    }
  }
  return lines;
}

std::string validation_groups_text(const std::vector<ComparedTable>& tables, const std::string& key) {
  TextTable table = error_table(key, false);
  for (const ComparedGroup& group : compare_groups(tables, key)) {
    std::vector<std::string> cells = error_cells(group.errors);
    cells.insert(cells.begin(), {group.value, group.quantity});
    table.row(std::move(cells));
  }
  return table.text();
}

std::string validation_json(const std::vector<ComparedTable>& tables) {
  const std::vector<KnownRun>& known = known_runs();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ComparedTable& table : tables) {
    nlohmann::ordered_json entry;
    entry["name"] = table.name;
    const std::vector<std::string> quantities = quantities_of(table);
    entry.update(json_of(quantities.empty() ? Errors{} : errors_of(table.rows, quantities.front())));
    entry["regret"] = table.regret ? nlohmann::ordered_json(*table.regret) : nlohmann::ordered_json();
    auto& parts = entry["quantities"] = nlohmann::ordered_json::object();
    for (const std::string& quantity : quantities) parts[quantity] = json_of(errors_of(table.rows, quantity));
    auto& comparisons = entry["comparisons"] = nlohmann::ordered_json::array();
    for (const ComparedRow& row : table.rows) {
      nlohmann::ordered_json comparison = {{"label", row.label},
                                           {"quantity", row.quantity},
                                           {"predicted", row.predicted},
                                           {"published", row.published},
                                           {"error", row.error()},
                                           {"source", row.traits.source},
                                           {"settings", settings_json(row.traits.settings)}};
      if (!row.traits.kind.software.empty()) {
        comparison["run"] = kind_json(row.traits);
        comparison["fits"] = row.traits.fit.fits;
        const ComparableRuns peaks(known, row.traits.kind, "peak_bytes", origin_of(row.traits.source));
        if (peaks.interval()) comparison["share_beyond_limit"] = peaks.share_beyond(row.traits.fit);
      }
      if (!row.choice.empty())
        comparison["unstated"] = {{"choice", row.choice}, {"low", row.low()}, {"high", row.high()}};
      comparisons.push_back(std::move(comparison));
    }
    entry["skipped"] = skipped_json(table);
    list.push_back(std::move(entry));
  }
  auto features = nlohmann::ordered_json::object();
  for (const auto& [feature, rows] : unmodelled_features(tables)) features[feature] = rows;
  return nlohmann::ordered_json{{"tables", list},
                                {"groups", groups_json(tables)},
                                {"not_modelled", features},
                                {"held_out", held_out_json(tables)},
                                {"changes", changes_json(tables)}}
             .dump(2, ' ', true, nlohmann::json::error_handler_t::replace) +
         "\n";
}

std::string leave_one_out_text(const std::vector<LeftOut>& list) {
  std::string text = fmt::format("{:<36} {:>10} {:>10} {:>8}  factors of:", "held-out table", "shipped %",
                                 "chosen %", "points");
  for (const std::string& name : calibratable_constants()) text += fmt::format(" {},", name);
  text.back() = '\n';
  for (const LeftOut& left : list) {
    text += fmt::format("{:<36} {:>10.2f} {:>10.2f} {:>+8.2f} ", left.table, 100 * left.shipped,
                        100 * left.chosen, 100 * (left.chosen - left.shipped));
    for (const double factor : left.factors) text += fmt::format(" {:.2f}", factor);
    text += '\n';
  }
  return text;
}

std::string validation_svg(const std::vector<ComparedTable>& tables) {
  constexpr double kWidth = 900;
  constexpr double kLeft = 300;
  constexpr double kStrip = 34;
  constexpr double kTop = 46;
  constexpr double kReach = 0.3;  // errors beyond ±30 % are drawn at the edge
  const auto x_of = [&](double error) {
    const double clamped = std::clamp(error, -kReach, kReach);
    return kLeft + (kWidth - kLeft - 20) * (clamped + kReach) / (2 * kReach);
  };
  std::string marks;
  double y = kTop;
  for (const ComparedTable& table : tables) {
    for (const std::string& quantity : quantities_of(table)) {
      const Errors errors = errors_of(table.rows, quantity);
      marks += fmt::format(
          "<text x=\"8\" y=\"{:.1f}\">{}</text><text x=\"8\" y=\"{:.1f}\" class=\"small\">{}, {} rows, "
          "mean |error| {:.2f} %</text>\n",
          y + 13, table.name, y + 25, quantity, errors.rows, 100 * errors.mape);
      // Rows of a strip are spread over its height in table order, so that equal errors stay apart.
      int index = 0;
      for (const ComparedRow& row : table.rows) {
        if (row.quantity != quantity) continue;
        const double place = y + 5 + (kStrip - 14) * (errors.rows > 1 ? index / (errors.rows - 1.0) : 0.5);
        marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.2\"/>\n", x_of(row.error()), place);
        ++index;
      }
      y += kStrip;
      marks += fmt::format("<line x1=\"0\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" class=\"rule\"/>\n", kWidth,
                           y - 2, y - 2);
    }
  }
  std::string axis;
  for (int percent = -30; percent <= 30; percent += 10) {
    const double x = x_of(percent / 100.0);
    axis += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2:.1f}\" class=\"{3}\"/>"
        "<text x=\"{0:.1f}\" y=\"34\" text-anchor=\"middle\" class=\"small\">{4:+d} %</text>\n",
        x, kTop - 6, y, percent == 0 ? "zero" : "rule", percent);
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" "
      "height=\"{1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<style>.small{{font-size:10px;fill:#555}}"
      ".rule{{stroke:#ddd}}.zero{{stroke:#333}}circle{{fill:#1f5fa8;fill-opacity:.55}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"8\" y=\"18\" font-weight=\"bold\">Predicted against published: relative error of every "
      "row</text>\n"
      "{2}{3}</svg>\n",
      kWidth, y + 8, axis, marks);
}

}  // namespace plumbline
