#include "bench/show/text/cell_columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include "bench/show/text/time_basis.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

/// A figure of a part of the record; NaN without that part.
template <class Part, class Get>
double figure_of(const std::optional<Part>& part, Get get) {
  return part ? static_cast<double>(std::invoke(get, *part)) : StepReport::kUnknown;
}

constexpr auto kPeakOf = [](const auto& report) { return report.memory.peak.value; };
constexpr auto kStepOf = [](const auto& report) { return report.time.step.value; };
constexpr auto kBubbleOf = [](const auto& report) { return report.time.bubble_fraction; };
constexpr auto kDeviceOf = [](const auto& report) {
  const DeviceMemoryRow* most = report.device_memory ? report.device_memory->fullest() : nullptr;
  return most == nullptr ? StepReport::kUnknown : static_cast<double>(most->total.value);
};
/// Share of the device's memory.
constexpr auto kDeviceShareOf = [](const auto& report) {
  const double total = kDeviceOf(report);
  const bool known = report.device_memory && report.device_memory->device.value > 0;
  return known ? total / static_cast<double>(report.device_memory->device.value) : StepReport::kUnknown;
};
constexpr auto kDroppedOf = [](const auto& report) {
  if (report.expert_load.empty()) return StepReport::kUnknown;
  return static_cast<double>(dropped_of(report.expert_load)) /
         static_cast<double>(std::max<std::int64_t>(1, tokens_of(report.expert_load)));
};

constexpr auto kComparableLowOf = [](const auto& report) {
  return report.comparable_step ? report.comparable_step->low.value : StepReport::kUnknown;
};
constexpr auto kComparableHighOf = [](const auto& report) {
  return report.comparable_step ? report.comparable_step->high.value : StepReport::kUnknown;
};

constexpr auto kTokensOf = [](const auto& report) { return report.throughput.tokens_per_s; };
constexpr auto kTokensPerGpuOf = [](const auto& report) { return report.throughput.tokens_per_s_per_gpu; };
constexpr auto kTflopsOf = [](const auto& report) { return report.throughput.model_tflops_per_gpu; };
constexpr auto kUtilizationOf = [](const auto& report) { return report.throughput.mfu; };

constexpr CellColumn kCellColumns[] = {
    {CellQuantity::peak_memory, ColumnSide::predicted, AtSpeed::any, "predicted", "predicted_peak_bytes",
     "prediction.memory.peak_bytes", [](const Record& r) { return figure_of(r.prediction, kPeakOf); }},
    {CellQuantity::peak_memory, ColumnSide::measured, AtSpeed::any, "measured", "measured_peak_bytes",
     "measurement.memory.peak_bytes", [](const Record& r) { return figure_of(r.measurement, kPeakOf); }},
    {CellQuantity::peak_memory, ColumnSide::error, AtSpeed::any, "error %", "error_peak_memory",
     "error.peak_memory", [](const Record& r) { return figure_of(r.error, &ErrorReport::peak_memory); }},
    {CellQuantity::device_memory, ColumnSide::predicted, AtSpeed::any, "predicted", "predicted_device_bytes",
     "", [](const Record& r) { return figure_of(r.prediction, kDeviceOf); }},
    {CellQuantity::device_memory, ColumnSide::predicted, AtSpeed::any, "of device %",
     "predicted_device_share", "", [](const Record& r) { return figure_of(r.prediction, kDeviceShareOf); }},
    {CellQuantity::device_memory, ColumnSide::measured, AtSpeed::any, "measured", "measured_device_bytes", "",
     [](const Record& r) { return figure_of(r.measurement, kDeviceOf); }},
    {CellQuantity::step_time, ColumnSide::predicted, AtSpeed::calibrated, "predicted", "predicted_step_s",
     "prediction.time.step_s", [](const Record& r) { return figure_of(r.prediction, kStepOf); }},
    {CellQuantity::step_time, ColumnSide::predicted, AtSpeed::current, "predicted",
     "predicted_step_s_current_machine_speed", "probed.time.step_s",
     [](const Record& r) { return figure_of(r.probed, kStepOf); }},
    {CellQuantity::step_time, ColumnSide::measured, AtSpeed::any, "measured", "measured_step_s",
     "measurement.time.step_s", [](const Record& r) { return figure_of(r.measurement, kStepOf); }},
    {CellQuantity::step_time, ColumnSide::error, AtSpeed::calibrated, "error %", "error_step_time",
     "error.step_time", [](const Record& r) { return figure_of(r.error, &ErrorReport::step_time); }},
    {CellQuantity::step_time, ColumnSide::error, AtSpeed::current, "error %",
     "error_step_time_current_machine_speed", "error.probed_step_time",
     [](const Record& r) { return figure_of(r.error, &ErrorReport::probed_step_time); }},
    {CellQuantity::comparable, ColumnSide::predicted, AtSpeed::any, "from", "comparable_step_s_low", "",
     [](const Record& r) { return figure_of(r.prediction, kComparableLowOf); }},
    {CellQuantity::comparable, ColumnSide::predicted, AtSpeed::any, "to", "comparable_step_s_high", "",
     [](const Record& r) { return figure_of(r.prediction, kComparableHighOf); }},
    {CellQuantity::bubble, ColumnSide::predicted, AtSpeed::calibrated, "predicted",
     "predicted_bubble_fraction", "prediction.time.bubble_fraction",
     [](const Record& r) { return figure_of(r.prediction, kBubbleOf); }},
    {CellQuantity::bubble, ColumnSide::predicted, AtSpeed::current, "predicted",
     "predicted_bubble_fraction_current_machine_speed", "probed.time.bubble_fraction",
     [](const Record& r) { return figure_of(r.probed, kBubbleOf); }},
    {CellQuantity::bubble, ColumnSide::measured, AtSpeed::any, "measured", "measured_bubble_fraction",
     "measurement.time.bubble_fraction", [](const Record& r) { return figure_of(r.measurement, kBubbleOf); }},
    {CellQuantity::bubble, ColumnSide::error, AtSpeed::calibrated, "difference", "error_bubble_fraction",
     "error.bubble_fraction",
     [](const Record& r) { return figure_of(r.error, &ErrorReport::bubble_fraction); }},
    {CellQuantity::bubble, ColumnSide::error, AtSpeed::current, "difference",
     "error_bubble_fraction_current_machine_speed", "error.probed_bubble_fraction",
     [](const Record& r) { return figure_of(r.error, &ErrorReport::probed_bubble_fraction); }},
    {CellQuantity::dropped_tokens, ColumnSide::predicted, AtSpeed::any, "predicted", "", "",
     [](const Record& r) { return figure_of(r.prediction, kDroppedOf); }},
    {CellQuantity::dropped_tokens, ColumnSide::measured, AtSpeed::any, "measured", "", "",
     [](const Record& r) { return figure_of(r.measurement, kDroppedOf); }},
    {CellQuantity::speed_up, ColumnSide::predicted, AtSpeed::any, "predicted", "predicted_speed_up", "",
     [](const Record& r) { return figure_of(r.baseline, &BaselineReport::predicted); }},
    {CellQuantity::speed_up, ColumnSide::measured, AtSpeed::any, "measured", "measured_speed_up", "",
     [](const Record& r) { return figure_of(r.baseline, &BaselineReport::measured); }},
    {CellQuantity::predicted_throughput, ColumnSide::predicted, AtSpeed::any, "tokens/s/GPU",
     "predicted_tokens_per_s_per_gpu", "prediction.throughput.tokens_per_s_per_gpu",
     [](const Record& r) { return figure_of(r.prediction, kTokensPerGpuOf); }},
    {CellQuantity::predicted_throughput, ColumnSide::predicted, AtSpeed::any, "TFLOP/s/GPU",
     "predicted_model_tflops_per_gpu", "prediction.throughput.model_tflops_per_gpu",
     [](const Record& r) { return figure_of(r.prediction, kTflopsOf); }},
    {CellQuantity::predicted_throughput, ColumnSide::predicted, AtSpeed::any, "MFU %", "predicted_mfu",
     "prediction.throughput.mfu", [](const Record& r) { return figure_of(r.prediction, kUtilizationOf); }},
    {CellQuantity::throughput, ColumnSide::measured, AtSpeed::any, "tokens/s", "measured_tokens_per_s",
     "measurement.throughput.tokens_per_s",
     [](const Record& r) { return figure_of(r.measurement, kTokensOf); }},
    {CellQuantity::throughput, ColumnSide::measured, AtSpeed::any, "tokens/s/GPU",
     "measured_tokens_per_s_per_gpu", "measurement.throughput.tokens_per_s_per_gpu",
     [](const Record& r) { return figure_of(r.measurement, kTokensPerGpuOf); }},
    {CellQuantity::throughput, ColumnSide::measured, AtSpeed::any, "TFLOP/s/GPU",
     "measured_model_tflops_per_gpu", "measurement.throughput.model_tflops_per_gpu",
     [](const Record& r) { return figure_of(r.measurement, kTflopsOf); }},
    {CellQuantity::throughput, ColumnSide::measured, AtSpeed::any, "MFU %", "measured_mfu",
     "measurement.throughput.mfu", [](const Record& r) { return figure_of(r.measurement, kUtilizationOf); }},
};

/// Typical value over predictions and measurements; 0 if there are none.
template <class Get>
double typical_of(const std::vector<Record>& records, Get get) {
  std::vector<double> values;
  const auto add = [&](double value) {
    if (std::isfinite(value)) values.push_back(value);
  };
  for (const Record& record : records) {
    if (record.prediction) add(get(*record.prediction));
    if (record.measurement) add(get(*record.measurement));
  }
  return values.empty() ? 0 : upper_median(std::move(values));
}

}  // namespace

std::string speed_suffix(AtSpeed speed, const std::vector<Record>& records) {
  if (speed == AtSpeed::any) return "";
  if (speed == AtSpeed::current) return " (current machine speed)";
  constexpr std::string_view kWords[] = {"calibrated", "accelerator's constants", "guess"};
  std::string bases;
  for (const TimeBasis basis : {TimeBasis::calibrated, TimeBasis::estimated, TimeBasis::guess}) {
    const bool any = std::any_of(records.begin(), records.end(), [&](const Record& record) {
      return record.prediction && time_basis(*record.prediction) == basis;
    });
    if (any) bases += fmt::format("{}{}", bases.empty() ? "" : ", ", kWords[static_cast<std::size_t>(basis)]);
  }
  return bases.empty() ? "" : fmt::format(" ({})", bases);
}

std::string_view name_of(CellQuantity quantity) {
  switch (quantity) {
    case CellQuantity::peak_memory:
      return "memory";
    case CellQuantity::device_memory:
      return "device";
    case CellQuantity::step_time:
      return "step";
    case CellQuantity::comparable:
      return "comparable";
    case CellQuantity::bubble:
      return "bubble";
    case CellQuantity::dropped_tokens:
      return "dropped";
    case CellQuantity::speed_up:
      return "speed-up";
    case CellQuantity::predicted_throughput:
    case CellQuantity::throughput:
      return "tokens";
  }
  return "";
}

bool is_guess(const CellColumn& column, const Record& record) {
  const bool of_time = column.quantity == CellQuantity::step_time ||
                       column.quantity == CellQuantity::bubble ||
                       column.quantity == CellQuantity::predicted_throughput;
  return of_time && column.side == ColumnSide::predicted && record.prediction &&
         record.prediction->times_guessed;
}

std::string_view guess_note(const std::vector<Record>& records) {
  const bool any = std::any_of(records.begin(), records.end(), [](const Record& record) {
    return record.prediction && record.prediction->times_guessed;
  });
  return any ? "guess: generic rates, as the machine was not calibrated and no accelerator named (run "
               "`plumbline "
               "calibrate`)"
             : "";
}

std::string CellColumn::label(const std::vector<Record>& records) const {
  return fmt::format("{}{}", title, speed_suffix(speed, records));
}

std::span<const CellColumn> cell_columns() {
  return kCellColumns;
}

Scale memory_scale(const std::vector<Record>& records) {
  const double typical =
      typical_of(records, [](const auto& r) { return static_cast<double>(r.memory.peak.value); });
  const ByteUnit unit = readable_unit(typical);
  return {1.0 / static_cast<double>(unit.size.value), unit.name, unit.digits};
}

Scale time_scale(const std::vector<Record>& records) {
  const double typical = typical_of(records, kStepOf);
  return typical < 1 ? Scale{1e3, "ms", 1} : Scale{1, "s", 3};
}

std::string shown(double value, const Scale& scale) {
  return fmt::format("{:.{}f}", value * scale.factor, scale.digits);
}

Scale CellUnits::of(const CellColumn& column) const {
  switch (column.quantity) {
    case CellQuantity::peak_memory:
      return column.side == ColumnSide::error ? Scale{100, "%", 2} : memory;
    case CellQuantity::device_memory:
      return column.title.ends_with('%') ? Scale{100, "%", 1} : memory;
    case CellQuantity::step_time:
      return column.side == ColumnSide::error ? Scale{100, "%", 1} : time;
    case CellQuantity::comparable:
      return time;
    case CellQuantity::bubble:
      return {1, "", 3};
    case CellQuantity::dropped_tokens:
      return {100, "%", 2};
    case CellQuantity::speed_up:
      return {1, "", 3};
    case CellQuantity::predicted_throughput:
    case CellQuantity::throughput:
      if (column.title.ends_with('%')) return {100, "%", 1};
      return column.title == "tokens/s" ? Scale{1, "", 0} : Scale{1, "", 1};
  }
  return {};
}

std::string CellUnits::text(const CellColumn& column, double value) const {
  const Scale scale = of(column);
  return column.side == ColumnSide::error ? fmt::format("{:+.{}f}", value * scale.factor, scale.digits)
                                          : shown(value, scale);
}

std::string CellUnits::group(const CellColumn& column) const {
  switch (column.quantity) {
    case CellQuantity::peak_memory:
      return fmt::format("peak memory, {}", memory.unit);
    case CellQuantity::device_memory:
      return fmt::format("device memory, {}", memory.unit);
    case CellQuantity::step_time:
      return fmt::format("{}, {}", time_figure("step_s").title, time.unit);
    case CellQuantity::comparable:
      return fmt::format("comparable runs, {}", time.unit);
    case CellQuantity::bubble:
      return std::string(time_figure("bubble_fraction").title);
    case CellQuantity::dropped_tokens:
      return "dropped tokens, %";
    case CellQuantity::speed_up:
      return "speed-up over the baseline";
    case CellQuantity::predicted_throughput:
      return "predicted";
    case CellQuantity::throughput:
      return "measured";
  }
  return "";
}

bool any_measured(const std::vector<Record>& records) {
  return std::any_of(records.begin(), records.end(),
                     [](const Record& r) { return r.measurement || r.error; });
}

std::vector<const CellColumn*> columns_to_show(const std::vector<Record>& records) {
  const auto any = [&](auto says) { return std::any_of(records.begin(), records.end(), says); };
  const bool some_probed = any([](const Record& r) { return r.probed.has_value(); });
  const bool some_device = any([](const Record& r) {
    return std::isfinite(figure_of(r.prediction, kDeviceOf)) ||
           std::isfinite(figure_of(r.measurement, kDeviceOf));
  });
  const bool some_dropped = any([](const Record& r) { return figure_of(r.measurement, kDroppedOf) > 0; });
  const bool some_baseline = any([](const Record& r) {
    return r.baseline && (std::isfinite(r.baseline->predicted) || std::isfinite(r.baseline->measured));
  });
  const bool some_comparable =
      any([](const Record& r) { return r.prediction && r.prediction->comparable_step; });
  const bool measured = any_measured(records);
  std::vector<const CellColumn*> columns;
  for (const CellColumn& column : kCellColumns) {
    if (!measured && column.side != ColumnSide::predicted) continue;
    if (column.speed == AtSpeed::current && !some_probed) continue;
    if (column.quantity == CellQuantity::device_memory && !some_device) continue;
    if (column.quantity == CellQuantity::comparable && !some_comparable) continue;
    if (column.quantity == CellQuantity::dropped_tokens && !some_dropped) continue;
    if (column.quantity == CellQuantity::speed_up && !some_baseline) continue;
    columns.push_back(&column);
  }
  return columns;
}

}  // namespace plumbline
