// The out-of-memory table for people.
#include <fmt/format.h>

#include <algorithm>

#include "bench/matrix/oom_table.hpp"
#include "bench/matrix/tightest_cell.hpp"
#include "bench/show/text/record_tables.hpp"
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

class TextGrid {
 public:
  explicit TextGrid(std::vector<std::string> titles) { lines_.push_back(std::move(titles)); }
  void add(std::vector<std::string> line) { lines_.push_back(std::move(line)); }
  std::string text() const {
    std::string text;
    std::vector<std::size_t> widths(lines_.front().size());
    for (const auto& line : lines_) {
      for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
    }
    for (const auto& line : lines_) {
      for (std::size_t i = 0; i < line.size(); ++i) {
        text += i + 1 == line.size() ? line[i] : fmt::format("{:<{}}  ", line[i], widths[i]);
      }
      text += '\n';
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> lines_;
};

std::string cells_text(const std::vector<OomRow>& rows, const ByteUnit& unit) {
  if (rows.empty()) return "no cells\n";
  std::vector<std::string> titles;
  for (const auto& [key, value] : rows.front().cell.values) titles.push_back(title_of(key));
  const std::string peak = fmt::format("peak {}", unit.name);
  titles.insert(titles.end(), {"published", "predicted", peak, "margin bytes", "peak rank, largest category",
                               "measured", peak, "difference bytes"});
  TextGrid grid(titles);
  for (const OomRow& row : rows) {
    std::vector<std::string> line;
    for (const auto& [key, value] : row.cell.values) line.push_back(value);
    line.resize(titles.size() - 8, "-");
    line.push_back(row.published ? word_of(*row.published) : "-");
    line.push_back(row.predicted ? word_of(row.predicted->status) : "-");
    line.push_back(peak_of(row.predicted, unit));
    const bool known = row.predicted && row.predicted->peak;
    line.push_back(known && row.budget.value > 0 ? signed_digits((row.budget - *row.predicted->peak).value)
                                                 : "-");
    line.push_back(known ? fmt::format("rank {}: {} {} {}", row.predicted->rank,
                                       name_of(row.predicted->category),
                                       unit.of(row.predicted->category_bytes), unit.name)
                         : "-");
    line.push_back(row.measured ? word_of(row.measured->status) : "-");
    line.push_back(peak_of(row.measured, unit));
    line.push_back(known && row.measured && row.measured->peak
                       ? signed_digits((*row.predicted->peak - *row.measured->peak).value)
                       : "-");
    grid.add(std::move(line));
  }
  return grid.text();
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

std::string hypotheses_text(const std::vector<HypothesisRow>& rows, const ByteUnit& unit) {
  TextGrid grid({"hypothesis", fmt::format("budget {}", unit.name), "right", "wrong",
                 fmt::format("consistent budgets {}", unit.name), "largest that fits: margin",
                 "smallest OOM: margin", ""});
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
    grid.add({row.name, row.budget.value > 0 ? unit.of(row.budget) : "none", std::to_string(row.right),
              std::to_string(row.wrong), range, margin(row.fitting), margin(row.missing),
              row.explains() ? "consistent with all published outcomes" : ""});
  }
  return grid.text();
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

std::string to_text(const OomTable& table) {
  const ByteUnit unit = unit_of(table);
  std::string text = cells_text(table.rows, unit) + '\n' + agreement_text(table);
  if (!table.source.empty()) text += fmt::format("published: {}\n", table.source);
  if (!table.hypotheses.empty()) text += '\n' + hypotheses_text(table.hypotheses, unit);
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
