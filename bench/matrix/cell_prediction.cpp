#include "bench/matrix/cell_prediction.hpp"

#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "bench/evaluate/evaluation.hpp"
#include "bench/evaluate/profile_trust.hpp"
#include "bench/evaluate/record_parts.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/reinforcement_parts.hpp"
#include "bench/run/cell_timelines.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"

namespace plumbline {
namespace {

/// The rank that needs most, its memory, and its largest category.
std::string why_not_fitting(const PredictionReport& report, const Fit& fit) {
  const RankMemoryReport* rank = report.memory.row_of(fit.rank);
  std::string line = fmt::format("predicted not to fit: rank {} needs {} of {}{}", fit.rank,
                                 brief_bytes(fit.needed), brief_bytes(fit.limit),
                                 fit.by_device ? " of device memory, allocator margin included" : "");
  if (rank == nullptr) return line;
  auto most = static_cast<Category>(0);
  for (int i = 1; i < kCategories; ++i) {
    if (rank->bytes[most] < rank->bytes[static_cast<Category>(i)]) most = static_cast<Category>(i);
  }
  return line + fmt::format(", largest: {} {}", name_of(most), brief_bytes(rank->bytes[most]));
}

void predict_reinforced(const RunConfig& config, bool alone, CellNotes& notes, Record& record) {
  const HardwareProfile hardware = hardware_of(config, notes.note);
  try {
    const ReinforcementPrediction prediction = predict_reinforcement(config, hardware, step_for);
    record.prediction = report_of(prediction);
    if (!alone || prediction.fits) return;
    const StepPhase& fullest = prediction.phases[prediction.fullest];
    record.reason = fmt::format("predicted not to fit: phase {} needs {} of {}", fullest.name,
                                brief_bytes(fullest.needed), brief_bytes(prediction.limit));
  } catch (const InputError& error) {  // no room for a single response
    record.status = Status::invalid;
    record.reason = error.what();
  }
}

}  // namespace

void Unsaved::add(const std::string& why) {
  if (count_++ == 0) first_ = why;
}

void Unsaved::tell() const {
  if (count_ == 0) return;
  const std::string more = count_ == 1 ? "" : fmt::format(" (the first of {} files)", count_);
  say(fmt::format("note: {}{}; the records are whole\n", first_, more));
}

void predict_cell(const MatrixCell& cell, const std::optional<std::string>& timeline, bool alone,
                  CellNotes& notes, Record& record) {
  // A configuration that this build cannot execute is predicted all the same; the runner says so if it should
  // be measured.
  Record started = start_record(cell.id, cell.config, Asked::prediction);
  record.config = std::move(started.config);
  record.model = started.model;
  record.status = started.status;
  record.reason = started.reason;
  if (record.status != Status::ok) return;
  if (cell.config.reinforces()) return predict_reinforced(cell.config, alone, notes, record);
  const RepeatedSchedule step = step_for(cell.config);
  const HardwareProfile hardware = hardware_of(cell.config, notes.note);
  for (const std::string& doubt : doubts_about(hardware, record.machine, std::time(nullptr), true))
    notes.doubts.insert(doubt);
  const Prediction prediction = predict(cell.config, step, hardware);
  record.prediction = whole_report(prediction, cell.config, step, hardware);
  if (alone && !prediction.fit.fits) record.reason = why_not_fitting(*record.prediction, prediction.fit);
  if (!timeline || count_of(count_by_stage(step)) > static_cast<std::int64_t>(kMostTimelineActions)) return;
  try {
    const Schedule schedule = with_copies(step, step.copies);
    CellTimelines timelines;
    timelines.predicted = predicted_timeline(cell.config, schedule, prediction, hardware);
    write_timelines(*timeline, std::move(timelines));  // a cell that is measured writes it again with both
  } catch (const Error& error) {
    notes.unsaved.add(error.what());
  }
}

}  // namespace plumbline
