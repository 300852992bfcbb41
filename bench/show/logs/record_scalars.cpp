#include "bench/show/logs/record_scalars.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace plumbline {
namespace {

constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kStepTime = "time/step_s";

template <class Report, class Get>
double side_of(const std::optional<Report>& report, const Get& get) {
  return report ? static_cast<double>(get(*report)) : kNothing;
}

}  // namespace

std::optional<std::int64_t> number_of(const Record& record, std::string_view key) {
  for (const auto& [name, text] : record.config) {
    if (name != key) continue;
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size()) return number;
  }
  return std::nullopt;
}

StepClock::StepClock(const Record& record, double end_unix_s) : start_(end_unix_s) {
  if (!record.measurement) return;
  const MeasurementReport& measured = *record.measurement;
  const auto timed = static_cast<std::int64_t>(measured.steps.size());
  const auto losses = static_cast<std::int64_t>(measured.losses.size());
  // A resumed run has losses of earlier starts. Several rounds have the timed steps of all.
  const bool numbered = measured.rounds == 1 && losses >= timed && losses > 0;
  steps_ = numbered ? losses : number_of(record, "warmup_steps").value_or(0) + timed;
  for (const StepReport& step : measured.steps) {
    seconds_.push_back(step.time.value);
    if (std::isfinite(step.time.value)) start_ -= step.time.value;
  }
  double end = start_;
  for (const double seconds : seconds_) {
    if (std::isfinite(seconds)) end += seconds;
    ends_.push_back(end);
  }
}

double StepClock::unix_s(std::int64_t step) const {
  const std::int64_t place = step - first_timed();
  if (place < 0 || ends_.empty()) return start_;
  return ends_[static_cast<std::size_t>(std::min<std::int64_t>(place, std::ssize(ends_) - 1))];
}

std::optional<double> StepClock::seconds(std::int64_t step) const {
  const std::int64_t place = step - first_timed();
  if (place < 0 || place >= std::ssize(seconds_)) return std::nullopt;
  const double value = seconds_[static_cast<std::size_t>(place)];
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::vector<RunFigure> run_figures(const Record& record) {
  std::vector<RunFigure> figures;
  const auto add = [&](std::string name, const auto& get) {
    const double predicted = side_of(record.prediction, get);
    const double measured = side_of(record.measurement, get);
    if (std::isfinite(predicted) || std::isfinite(measured))
      figures.push_back({std::move(name), predicted, measured});
  };
  for (const auto& figure : kTimeFigures)
    add("time/" + std::string(figure.key), [&](const auto& report) { return figure.of(report.time); });
  for (const auto& figure : kThroughputFigures)
    add("throughput/" + std::string(figure.key),
        [&](const auto& report) { return figure.of(report.throughput); });
  add("memory/peak_bytes", [](const auto& report) { return report.memory.peak.value; });
  if (record.measurement && record.measurement->energy) {
    for (const auto& [name, joule] : {std::pair("energy/step_j", &EnergyReport::step_joule),
                                      std::pair("energy/token_j", &EnergyReport::token_joule)}) {
      const double measured = (*record.measurement->energy).*joule;
      if (std::isfinite(measured)) figures.push_back({name, kNothing, measured});
    }
  }
  return figures;
}

RecordScalars scalars_of(const Record& record, double end_unix_s) {
  RecordScalars made;
  const StepClock clock(record, end_unix_s);
  const std::int64_t last = std::max<std::int64_t>(clock.steps(), 1);
  const auto add = [&](std::vector<Scalar>& list, const std::string& tag, std::int64_t step, double value) {
    if (std::isfinite(value)) list.push_back({tag, step, value, clock.unix_s(step)});
  };
  if (record.measurement) {
    const std::vector<double>& losses = record.measurement->losses;
    for (std::size_t i = 0; i < losses.size(); ++i)
      add(made.measured, "loss", static_cast<std::int64_t>(i) + 1, losses[i]);
    for (std::int64_t step = 1; step <= last; ++step)
      if (const auto seconds = clock.seconds(step)) add(made.measured, kStepTime, step, *seconds);
  }
  const bool timed = record.measurement && !record.measurement->steps.empty();
  for (const RunFigure& figure : run_figures(record)) {
    if (figure.name == kStepTime && timed && clock.first_timed() < last)
      add(made.predicted, figure.name, clock.first_timed(), figure.predicted);
    add(made.predicted, figure.name, last, figure.predicted);
    if (figure.name != kStepTime || !timed) add(made.measured, figure.name, last, figure.measured);
  }
  return made;
}

}  // namespace plumbline
