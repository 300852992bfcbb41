// Names, totals and errors of records.
#include "bench/record/record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "core/base/byte_text.hpp"

namespace plumbline {

std::string_view name_of(Status status) {
  static constexpr std::array<std::string_view, 6> kNames = {"ok",     "oom",     "invalid",
                                                             "failed", "timeout", "unsupported"};
  return kNames[static_cast<std::size_t>(status)];
}

ExitCode exit_code_of(Status status) {
  switch (status) {
    case Status::ok:
      return ExitCode::done;
    case Status::oom:
      return ExitCode::does_not_fit;
    case Status::invalid:
    case Status::unsupported:
      return ExitCode::bad_input;
    case Status::failed:
      return ExitCode::rank_failed;
    case Status::timeout:
      return ExitCode::timed_out;
  }
  return ExitCode::rank_failed;
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

std::string verdict_word(const PredictionReport& prediction) {
  if (!prediction.fits) return "does not fit";
  return prediction.verdict.empty() ? "fits" : prediction.verdict;
}

std::string verdict_text(const std::string& word, std::optional<double> chance) {
  return word == "tight" && chance ? fmt::format("{} ({:.0f} %)", word, 100 * *chance) : word;
}

std::string verdict_text(const PredictionReport& prediction) {
  return verdict_text(verdict_word(prediction), prediction.chance);
}

std::string why_not_fitting(const PredictionReport& prediction) {
  const DeviceMemoryRow* row = prediction.device_memory ? prediction.device_memory->fullest() : nullptr;
  if (row == nullptr || row->needed() <= prediction.device_memory->device)
    return "predicted not to fit the memory budget";
  return fmt::format("predicted not to fit: {} of device memory and {} of allocator margin on a device of {}",
                     brief_bytes(row->total), brief_bytes(row->margin.value_or(Bytes{})),
                     brief_bytes(prediction.device_memory->device));
}

const RankMemoryReport* MemoryReport::row_of(int rank) const {
  const auto row = std::find_if(ranks.begin(), ranks.end(), [rank](const RankMemoryReport& each) {
    return each.rank <= rank && rank < each.rank + each.ranks_alike;
  });
  return row == ranks.end() ? nullptr : &*row;
}

Traffic larger(const Traffic& a, const Traffic& b) {
  Traffic most;
  most.messages_sent = std::max(a.messages_sent, b.messages_sent);
  most.point_to_point_sent = std::max(a.point_to_point_sent, b.point_to_point_sent);
  for (std::size_t i = 0; i < most.groups.size(); ++i) {
    const GroupTraffic& x = a.groups[i];
    const GroupTraffic& y = b.groups[i];
    most.groups[i] = {std::max(x.calls, y.calls),
                      std::max(x.all_reduced, y.all_reduced),
                      std::max(x.all_gathered, y.all_gathered),
                      std::max(x.reduce_scattered, y.reduce_scattered),
                      std::max(x.broadcast, y.broadcast),
                      std::max(x.exchanged, y.exchanged)};
  }
  return most;
}

ErrorReport compare(const PredictionReport& predicted, const MeasurementReport& measured,
                    const std::optional<ProbedReport>& probed) {
  ErrorReport error;
  if (measured.memory.peak.value > 0) {
    error.peak_memory =
        static_cast<double>(predicted.memory.peak.value) / static_cast<double>(measured.memory.peak.value) -
        1;
  }
  const double step = measured.time.step.value;
  if (std::isnan(step)) error.step_time = NAN;
  if (step > 0) error.step_time = predicted.time.step / measured.time.step - 1;
  error.bubble_fraction = predicted.time.bubble_fraction - measured.time.bubble_fraction;
  if (probed && step > 0) {
    error.probed_step_time = probed->time.step / measured.time.step - 1;
    error.probed_bubble_fraction = probed->time.bubble_fraction - measured.time.bubble_fraction;
  }
  return error;
}

void set_speedups(std::vector<Record>& records) {
  std::unordered_map<std::string_view, const Record*> known;
  for (const Record& record : records) known[record.id] = &record;
  const auto ratio = [](const auto& base, const auto& mine) {
    return base && mine && mine->time.step.value > 0 ? base->time.step / mine->time.step
                                                     : StepReport::kUnknown;
  };
  for (Record& record : records) {
    if (!record.baseline) continue;
    const auto found = known.find(record.baseline->id);
    if (found == known.end()) continue;
    record.baseline->predicted = ratio(found->second->prediction, record.prediction);
    record.baseline->measured = ratio(found->second->measurement, record.measurement);
  }
}

}  // namespace plumbline
