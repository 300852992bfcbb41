// Names, totals and errors of records.
#include "bench/record.hpp"

#include <array>

namespace plumbline {

std::string_view name_of(Status status) {
  static constexpr std::array<std::string_view, 6> kNames = {"ok",     "oom",     "invalid",
                                                             "failed", "timeout", "unsupported"};
  return kNames[static_cast<std::size_t>(status)];
}

MemoryReport MemoryReport::of(std::vector<RankMemoryReport> ranks) {
  MemoryReport report;
  report.ranks = std::move(ranks);
  for (const RankMemoryReport& rank : report.ranks) {
    const Bytes total = rank.bytes.total();
    if (total > report.peak) {
      report.peak = total;
      report.peak_rank = rank.rank;
    }
  }
  return report;
}

ErrorReport compare(const PredictionReport& predicted, const MeasurementReport& measured) {
  ErrorReport error;
  if (measured.memory.peak.value > 0) {
    error.peak_memory =
        static_cast<double>(predicted.memory.peak.value) / static_cast<double>(measured.memory.peak.value) -
        1;
  }
  if (measured.time.step.value > 0) error.step_time = predicted.time.step / measured.time.step - 1;
  error.bubble_fraction = predicted.time.bubble_fraction - measured.time.bubble_fraction;
  return error;
}

}  // namespace plumbline
