// The out-of-memory table for people.
#include <fmt/format.h>

#include <algorithm>

#include "bench/matrix/oom_table.hpp"
#include "bench/matrix/tightest_cell.hpp"
#include "bench/show/text/record_tables.hpp"
#include "bench/show/text/text_table.hpp"
#include "core/base/byte_text.hpp"

namespace plumbline {
namespace {

std::string word_of(Status status) {
  if (status == Status::ok) return "fits";
  if (status == Status::oom) return "OOM";
  return std::string(name_of(status));
}

std::string peak_of(const std::optional<FitVerdict>& verdict, const ByteUnit& unit) {
  return verdict && verdict->peak ? unit.of(*verdict->peak) : "-";
}

std::string cells_text(const std::vector<OomRow>& rows, const ByteUnit& unit, int width) {
  if (rows.empty()) return "no cells\n";
  TextTable table;
  for (const auto& [key, value] : rows.front().cell.values) table.column(title_of(key), true);
  const std::size_t keys = rows.front().cell.values.size();
  const std::string peak = fmt::format("peak {}", unit.name);
  table.column("published", true);
  table.column("predicted", true);
  table.column(peak);
  table.column("margin bytes");
  table.column("measured", true);
  table.column(peak);
  table.column("difference bytes");
  table.column("peak rank, largest category", true);
  for (const OomRow& row : rows) {
    std::vector<std::string> line;
    for (const auto& [key, value] : row.cell.values) line.push_back(value);
    line.resize(keys, "-");
    line.push_back(row.published ? word_of(*row.published) : "-");
    line.push_back(row.predicted ? verdict_text(row.predicted->verdict, row.predicted->chance) : "-");
    line.push_back(peak_of(row.predicted, unit));
    const bool known = row.predicted && row.predicted->peak;
    line.push_back(known && row.budget.value > 0 ? signed_digits((row.budget - *row.predicted->peak).value)
                                                 : "-");
    line.push_back(row.measured ? word_of(row.measured->status) : "-");
    line.push_back(peak_of(row.measured, unit));
    line.push_back(known && row.measured && row.measured->peak
                       ? signed_digits((*row.predicted->peak - *row.measured->peak).value)
                       : "-");
    line.push_back(known ? fmt::format("rank {}: {} {} {}", row.predicted->rank,
                                       name_of(row.predicted->category),
                                       unit.of(row.predicted->category_bytes), unit.name)
                         : "-");
    table.row(std::move(line));
  }
  return table.text(width);
}

std::string agreement_text(const OomTable& table) {
  const OomAgreement agreement = agreement_of(table.rows);
  std::string text;
  if (agreement.measured > 0) {
    text += fmt::format(
        "predicted and measured outcome equal in {} of {} cells, peak equal to the byte in {} of {}\n",
        agreement.same_status, agreement.measured, agreement.same_peak, agreement.peaks);
  }
  if (agreement.published > 0) {
    text += fmt::format("predicted and published outcome equal in {} of {} cells\n",
                        agreement.same_as_published, agreement.published);
  }
  return text;
}

std::string hypotheses_text(const std::vector<HypothesisRow>& rows, const ByteUnit& unit, int width) {
  TextTable table;
  table.column("hypothesis", true);
  table.column(fmt::format("budget {}", unit.name));
  table.column("right");
  table.column("wrong");
  table.column(fmt::format("consistent budgets {}", unit.name), true);
  table.column("largest that fits: margin");
  table.column("smallest OOM: margin");
  table.column("", true);
  for (const HypothesisRow& row : rows) {
    std::string range = "-";
    if (row.fitting && row.missing) {
      range = *row.fitting < *row.missing
                  ? fmt::format("{} to {}", unit.of(*row.fitting), unit.of(*row.missing))
                  : "none";
    }
    const auto margin = [&](const std::optional<Bytes>& peak) {
      return peak && row.budget.value > 0 ? signed_digits((row.budget - *peak).value) : "-";
    };
    table.row({row.name, row.budget.value > 0 ? unit.of(row.budget) : "none", std::to_string(row.right),
               std::to_string(row.wrong), range, margin(row.fitting), margin(row.missing),
               row.explains() ? "consistent with all published outcomes" : ""});
  }
  return table.text(width);
}

/// For the whole table: of its budgets and peaks.
ByteUnit unit_of(const OomTable& table) {
  Bytes largest;
  for (const OomRow& row : table.rows) {
    largest = std::max(largest, row.budget);
    if (row.budget.value == 0 && row.predicted && row.predicted->peak) {
      largest = std::max(largest, *row.predicted->peak);
    }
  }
  return column_unit(largest);
}

}  // namespace

std::string to_text(const OomTable& table, int width) {
  const ByteUnit unit = unit_of(table);
  std::string text = cells_text(table.rows, unit, width) + '\n' + agreement_text(table);
  if (!table.source.empty()) text += fmt::format("published: {}\n", table.source);
  if (!table.hypotheses.empty()) text += '\n' + hypotheses_text(table.hypotheses, unit, width);
  if (table.edge) text += '\n' + to_text(*table.edge);
  for (const OomRow& row : table.rows) {
    // Out of memory as predicted needs no explanation.
    const bool expected = row.predicted && row.predicted->status == Status::oom;
    const bool oom = row.measured ? row.measured->status == Status::oom : expected;
    if (row.reason.empty() || (oom && expected)) continue;
    text += fmt::format("\n{}: {}", row.cell.id, row.reason);
  }
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

}  // namespace plumbline
