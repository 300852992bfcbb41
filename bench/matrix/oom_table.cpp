#include "bench/matrix/oom_table.hpp"

#include <algorithm>

namespace plumbline {
namespace {

/// Values of the rank that decides: the one that needs most of the device, else the one with the most
/// tensors.
FitVerdict verdict_of(const MemoryReport& memory, Status status, const Fit& fit) {
  FitVerdict verdict;
  verdict.status = status;
  verdict.peak = memory.peak;
  verdict.rank = fit.by_device ? fit.rank : memory.peak_rank;
  if (const RankMemoryReport* rank = memory.row_of(verdict.rank)) {
    verdict.peak = rank->bytes.total();
    for (int c = 0; c < kCategories; ++c) {
      const auto category = static_cast<Category>(c);
      if (rank->bytes[category] <= verdict.category_bytes) continue;
      verdict.category = category;
      verdict.category_bytes = rank->bytes[category];
    }
  }
  return verdict;
}

}  // namespace

OomRow row_of(const MatrixCell& cell, const Record& record, const Fit& fit, std::optional<Status> published,
              bool predicted_only) {
  OomRow row;
  row.cell = cell;
  row.budget = fit.budget;
  row.published = published;
  row.reason = record.reason;
  if (record.prediction) {
    const PredictionReport& prediction = *record.prediction;
    row.predicted = verdict_of(prediction.memory, prediction.fits ? Status::ok : Status::oom, fit);
    row.predicted->verdict = verdict_word(prediction);
    row.predicted->chance = prediction.chance;
  }
  if (record.measurement) {
    row.measured = verdict_of(record.measurement->memory, record.status, fit);
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

void count_cell(HypothesisRow& row, Status published, const Fit& fit) {
  const Bytes peak = fit.tensors;
  const Bytes budget = fit.budget;
  (fit.fits == (published == Status::ok) ? row.right : row.wrong) += 1;
  if (published == Status::ok) {
    row.fitting = row.fitting ? std::max(*row.fitting, peak) : peak;
  } else {
    row.missing = row.missing ? std::min(*row.missing, peak) : peak;
  }
  row.budget = row.budget.value == 0 ? budget : std::min(row.budget, budget);
}

}  // namespace plumbline
