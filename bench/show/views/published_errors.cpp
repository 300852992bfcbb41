#include "bench/show/views/published_errors.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <tuple>

#include "analysis/published/error_intervals.hpp"
#include "analysis/published/run_changes.hpp"

namespace plumbline {
namespace {

constexpr const char* kQuantities[] = {"step_s", "peak_bytes"};

double rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

HeldOutTable together(const std::vector<HeldOutTable>& tables) {
  HeldOutTable all{"together"};
  for (const HeldOutTable& table : tables) {
    all.rows += table.rows;
    all.inside += table.inside;
    all.width += table.width * table.rows;
  }
  if (all.rows > 0) all.width /= all.rows;
  return all;
}

std::string held_out_line(const HeldOutTable& table, const char* quantity) {
  return fmt::format("{:<40} {:<12} {:>5} {:>10.1f} {:>10.2f}\n", table.table, quantity, table.rows,
                     100.0 * table.inside / table.rows, table.width);
}

}  // namespace

OrderedJson errors_by_software(const std::vector<ComparedTable>& tables) {
  // By software, kind and quantity.
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<ComparedRow>> groups;
  for (const ComparedTable& table : tables) {
    for (const ComparedRow& row : table.rows) {
      if (row.traits.software.empty()) continue;
      groups[{row.traits.software, row.traits.mixture ? "mixture" : "dense", row.quantity}].push_back(row);
    }
  }
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, rows] : groups) {
    const auto& [software, kind, quantity] = name;
    const auto interval = interval_like(tables, rows.front().traits, quantity);
    json[software][kind][quantity] = {{"rows", rows.size()},
                                      {"mape", rounded(errors_of(rows, quantity).mape)},
                                      {"interval_rows", interval->rows},
                                      {"low", rounded(interval->low)},
                                      {"high", rounded(interval->high)}};
  }
  return json;
}

std::string held_out_text(const std::vector<ComparedTable>& tables) {
  std::string text = fmt::format("{:<40} {:<12} {:>5} {:>10} {:>10}\n", "held-out table", "quantity", "rows",
                                 "coverage %", "width");
  for (const char* quantity : kQuantities) {
    const std::vector<HeldOutTable> list = hold_out_tables(tables, quantity);
    for (const HeldOutTable& table : list) text += held_out_line(table, quantity);
    if (!list.empty()) text += held_out_line(together(list), quantity);
  }
  return text +
         "coverage: rows within the 80 % interval of the other tables' similar runs; width: of published ÷ "
         "predicted\n";
}

OrderedJson held_out_json(const std::vector<ComparedTable>& tables) {
  OrderedJson json = OrderedJson::object();
  for (const char* quantity : kQuantities) {
    const std::vector<HeldOutTable> list = hold_out_tables(tables, quantity);
    if (list.empty()) continue;
    const HeldOutTable all = together(list);
    json[quantity] = {{"rows", all.rows}, {"inside", all.inside}, {"tables", OrderedJson::array()}};
    for (const HeldOutTable& table : list) {
      json[quantity]["tables"].push_back(
          {{"name", table.table}, {"rows", table.rows}, {"inside", table.inside}, {"width", table.width}});
    }
  }
  return json;
}

std::string changes_text(const std::vector<ComparedTable>& tables, bool rows) {
  const std::vector<RunChange> changes = run_changes(tables);
  std::string text = fmt::format("{:<34} {:<12} {:>7} {:>7} {:>7} {:>10}\n", "changed key", "quantity",
                                 "changes", "scored", "right", "median %");
  int scored = 0;
  int right = 0;
  for (const ChangeErrors& errors : errors_of_changes(changes)) {
    text += fmt::format("{:<34} {:<12} {:>7} {:>7} {:>7} {:>10.1f}\n", errors.respect, errors.quantity,
                        errors.changes, errors.scored, errors.right, 100 * errors.median);
    scored += errors.scored;
    right += errors.right;
    if (!rows) continue;
    for (const RunChange& change : changes) {
      if (change.respect != errors.respect || change.quantity != errors.quantity) continue;
      text += fmt::format("  {:>+7.1f} % published {:>+7.1f} %  {} -> {}\n", 100 * (change.predicted - 1),
                          100 * (change.published - 1), change.from, change.to);
    }
  }
  if (scored > 0) {
    text += fmt::format("{} of {} changes of more than {:.0f} % in the right direction ({:.0f} %)\n", right,
                        scored, 100 * kNoChange, 100.0 * right / scored);
  }
  return text;
}

OrderedJson changes_json(const std::vector<ComparedTable>& tables) {
  const std::vector<RunChange> changes = run_changes(tables);
  OrderedJson list = OrderedJson::array();
  for (const ChangeErrors& errors : errors_of_changes(changes)) {
    OrderedJson runs = OrderedJson::array();
    for (const RunChange& change : changes) {
      if (change.respect != errors.respect || change.quantity != errors.quantity) continue;
      runs.push_back({{"table", change.table},
                      {"from", change.from},
                      {"to", change.to},
                      {"predicted", change.predicted},
                      {"published", change.published}});
    }
    list.push_back({{"respect", errors.respect},
                    {"quantity", errors.quantity},
                    {"changes", errors.changes},
                    {"scored", errors.scored},
                    {"right", errors.right},
                    {"median", errors.median},
                    {"runs", std::move(runs)}});
  }
  return list;
}

}  // namespace plumbline
