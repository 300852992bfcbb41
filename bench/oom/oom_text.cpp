// The out-of-memory table for people.
#include <fmt/format.h>

#include <algorithm>

#include "bench/oom/oom_table.hpp"
#include "bench/tables.hpp"

namespace plumbline {
namespace {

std::string gib(Bytes bytes) {
  return fmt::format("{:.3f}", static_cast<double>(bytes.value) / static_cast<double>(kGiB.value));
}

/// With digits for every thousand: 1 234 567.
std::string digits(std::int64_t value) {
  std::string text = std::to_string(value < 0 ? -value : value);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ' ');
  }
  return fmt::format("{}{}", value < 0 ? '-' : '+', text);
}

std::string word_of(Status status) {
  if (status == Status::ok) return "fits";
  if (status == Status::oom) return "OOM";
  return std::string(name_of(status));
}

std::string peak_of(const std::optional<FitVerdict>& verdict) {
  return verdict && verdict->peak ? gib(*verdict->peak) : "-";
}

class Grid {
 public:
  explicit Grid(std::vector<std::string> titles) { lines_.push_back(std::move(titles)); }
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

std::string cells_text(const std::vector<OomRow>& rows) {
  if (rows.empty()) return "no cells\n";
  std::vector<std::string> titles;
  for (const auto& [key, value] : rows.front().cell.values) titles.push_back(title_of(key));
  titles.insert(titles.end(), {"published", "predicted", "peak GiB", "margin bytes", "decided by", "measured",
                               "peak GiB", "difference bytes"});
  Grid grid(titles);
  for (const OomRow& row : rows) {
    std::vector<std::string> line;
    for (const auto& [key, value] : row.cell.values) line.push_back(value);
    line.resize(titles.size() - 8, "-");
    line.push_back(row.published ? word_of(*row.published) : "-");
    line.push_back(row.predicted ? word_of(row.predicted->status) : "-");
    line.push_back(peak_of(row.predicted));
    const bool known = row.predicted && row.predicted->peak;
    line.push_back(known && row.budget.value > 0 ? digits((row.budget - *row.predicted->peak).value) : "-");
    line.push_back(known ? fmt::format("rank {}: {} {} GiB", row.predicted->rank,
                                       name_of(row.predicted->category), gib(row.predicted->category_bytes))
                         : "-");
    line.push_back(row.measured ? word_of(row.measured->status) : "-");
    line.push_back(peak_of(row.measured));
    line.push_back(known && row.measured && row.measured->peak
                       ? digits((*row.predicted->peak - *row.measured->peak).value)
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
        "prediction and measurement: same outcome in {} of {} cells, same peak to the byte in {} of {}\n",
        agreement.same_status, agreement.measured, agreement.same_peak, agreement.peaks);
  }
  if (agreement.published > 0) {
    text += fmt::format("prediction and publication: same outcome in {} of {} cells\n",
                        agreement.same_as_published, agreement.published);
  }
  return text;
}

std::string hypotheses_text(const std::vector<HypothesisRow>& rows) {
  Grid grid({"hypothesis", "budget GiB", "right", "wrong", "follows for budgets GiB", ""});
  for (const HypothesisRow& row : rows) {
    std::string range = "-";
    if (row.fitting && row.missing) {
      range = *row.fitting < *row.missing ? fmt::format("{} to {}", gib(*row.fitting), gib(*row.missing))
                                          : "none";
    }
    grid.add({row.name, row.budget.value > 0 ? gib(row.budget) : "none", std::to_string(row.right),
              std::to_string(row.wrong), range, row.explains() ? "explains what was published" : ""});
  }
  return grid.text();
}

}  // namespace

std::string to_text(const OomTable& table) {
  std::string text = cells_text(table.rows) + '\n' + agreement_text(table);
  if (!table.source.empty()) text += fmt::format("published: {}\n", table.source);
  if (!table.hypotheses.empty()) text += '\n' + hypotheses_text(table.hypotheses);
  for (const OomRow& row : table.rows) {
    if (row.reason.empty() || (row.measured && row.measured->status == Status::oom)) continue;
    text += fmt::format("\n{}: {}", row.cell.id, row.reason);
  }
  return text;
}

}  // namespace plumbline
