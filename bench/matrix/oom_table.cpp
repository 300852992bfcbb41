#include "bench/matrix/oom_table.hpp"

#include <algorithm>

namespace plumbline {
namespace {

FitVerdict verdict_of(const MemoryReport& memory, Status status) {
  FitVerdict verdict;
  verdict.status = status;
  verdict.peak = memory.peak;
  verdict.rank = memory.peak_rank;
  for (const RankMemoryReport& rank : memory.ranks) {
    if (rank.rank != memory.peak_rank) continue;
    for (int c = 0; c < kCategories; ++c) {
      const auto category = static_cast<Category>(c);
      if (rank.bytes[category] <= verdict.category_bytes) continue;
      verdict.category = category;
      verdict.category_bytes = rank.bytes[category];
    }
  }
  return verdict;
}

}  // namespace

OomRow row_of(const MatrixCell& cell, const Record& record, Bytes budget, std::optional<Status> published,
              bool predicted_only) {
  OomRow row;
  row.cell = cell;
  row.budget = budget;
  row.published = published;
  row.reason = record.reason;
  if (record.prediction) {
    row.predicted = verdict_of(record.prediction->memory, record.prediction->fits ? Status::ok : Status::oom);
  }
  if (record.measurement) {
    row.measured = verdict_of(record.measurement->memory, record.status);
  } else if (!predicted_only && record.status != Status::ok) {
    row.measured = FitVerdict{};
    row.measured->status = record.status;
  }
  return row;
}

OomAgreement agreement_of(const std::vector<OomRow>& rows) {
  OomAgreement agreement;
  const auto known = [](const std::optional<FitVerdict>& verdict) {
    return verdict && (verdict->status == Status::ok || verdict->status == Status::oom);
  };
  for (const OomRow& row : rows) {
    if (known(row.predicted) && known(row.measured)) {
      ++agreement.measured;
      agreement.same_status += row.predicted->status == row.measured->status ? 1 : 0;
      if (row.predicted->peak && row.measured->peak) {
        ++agreement.peaks;
        agreement.same_peak += *row.predicted->peak == *row.measured->peak ? 1 : 0;
      }
    }
    if (known(row.predicted) && row.published) {
      ++agreement.published;
      agreement.same_as_published += row.predicted->status == *row.published ? 1 : 0;
    }
  }
  return agreement;
}

void count_cell(HypothesisRow& row, Status published, Bytes peak, Bytes budget) {
  const bool fits = budget.value == 0 || peak <= budget;
  (fits == (published == Status::ok) ? row.right : row.wrong) += 1;
  if (published == Status::ok) {
    row.fitting = row.fitting ? std::max(*row.fitting, peak) : peak;
  } else {
    row.missing = row.missing ? std::min(*row.missing, peak) : peak;
  }
  row.budget = row.budget.value == 0 ? budget : std::min(row.budget, budget);
}

}  // namespace plumbline
