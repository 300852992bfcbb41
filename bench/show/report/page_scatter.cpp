// Predicted against measured as scatter plots, drawn here as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "bench/show/report/escape.hpp"
#include "bench/show/report/page_parts.hpp"
#include "bench/show/text/cell_columns.hpp"
#include "bench/show/text/figures.hpp"
#include "bench/show/text/record_tables.hpp"

namespace plumbline {
namespace {

constexpr double kSide = 260;
constexpr double kLeft = 58;
constexpr double kTop = 10;
constexpr double kBottom = 46;
constexpr double kRight = 14;
constexpr double kBand = 0.10;  // the shaded ± around equality, relative

struct Point {
  std::size_t cell = 0;
  double measured = 0;
  double predicted = 0;
};

/// One axis for both directions, so that equality is the diagonal.
struct Axis {
  double low = 0;
  double high = 1;
  bool logarithmic = false;

  double place(double value) const {
    if (logarithmic) return kSide * std::log(value / low) / std::log(high / low);
    return kSide * (value - low) / (high - low);
  }
  double x(double value) const { return kLeft + place(value); }
  double y(double value) const { return kTop + kSide - place(value); }
};

Axis axis_for(const std::vector<Point>& points) {
  double low = INFINITY;
  double high = 0;
  for (const Point& point : points) {
    low = std::min({low, point.measured, point.predicted});
    high = std::max({high, point.measured, point.predicted});
  }
  if (!(high > 0)) return {};
  if (low > 0 && high / low > 20) return {low / 1.3, high * 1.3, true};
  const double step = round_step(high / 5);
  return {0, step * std::ceil(high * 1.02 / step), false};
}

std::vector<double> ticks_of(const Axis& axis) {
  std::vector<double> ticks;
  if (!axis.logarithmic) {
    const double step = round_step(axis.high / 6);
    for (int i = 0; i * step <= axis.high * (1 + 1e-9); ++i) ticks.push_back(i * step);
    return ticks;
  }
  const bool dense = axis.high / axis.low < 1e3;
  for (double power = std::pow(10, std::floor(std::log10(axis.low))); power <= axis.high; power *= 10) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if ((dense || factor == 1.0) && power * factor >= axis.low && power * factor <= axis.high)
        ticks.push_back(power * factor);
    }
  }
  return ticks;
}

/// Grid, ticks and axis titles; `quantity` is the title without "measured" or "predicted", with its unit.
std::string axes_svg(const Axis& axis, const std::string& quantity) {
  std::string svg = fmt::format("<rect class=\"plot\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", kLeft,
                                kTop, kSide, kSide);
  for (const double tick : ticks_of(axis)) {
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} {1}V{2}M{3} {4:.1f}H{5}\"/><text class=\"tick\" x=\"{0:.1f}\" "
        "y=\"{6}\" text-anchor=\"middle\">{7:.4g}</text><text class=\"tick\" x=\"{8}\" y=\"{9:.1f}\" "
        "text-anchor=\"end\">{7:.4g}</text>",
        axis.x(tick), kTop, kTop + kSide, kLeft, axis.y(tick), kLeft + kSide, kTop + kSide + 15, tick,
        kLeft - 6, axis.y(tick) + 4);
  }
  svg += fmt::format(
      "<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">measured {}</text><text class=\"axis\" "
      "transform=\"translate(13 {}) rotate(-90)\" text-anchor=\"middle\">predicted {}</text>",
      kLeft + kSide / 2, kTop + kSide + 36, quantity, kTop + kSide / 2, quantity);
  return svg;
}

std::string lines_svg(const Axis& axis, bool relative) {
  const double low = axis.logarithmic ? axis.low / 2 : 0;
  const double high = axis.high * 2;
  const auto corner = [&](double x, double factor) {
    return fmt::format("{:.1f},{:.1f} ", axis.x(x),
                       axis.y(std::max(x * factor, axis.logarithmic ? 1e-300 : 0)));
  };
  std::string svg;
  if (relative) {
    svg += fmt::format("<polygon class=\"band\" points=\"{}{}{}{}\"/>", corner(low, 1 + kBand),
                       corner(high, 1 + kBand), corner(high, 1 - kBand), corner(low, 1 - kBand));
  }
  return svg + fmt::format("<path class=\"identity\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>", axis.x(low),
                           axis.y(low), axis.x(high), axis.y(high));
}

struct Chart {
  const char* id;
  std::string title;
  std::string quantity;  ///< of both axes, with its unit
  Scale scale;
  bool relative;
  double ErrorReport::*error;
  std::function<double(const MemoryReport&, const StepTime&)> value;
};

std::string figure_html(const std::vector<Record>& records, const std::vector<std::string>& labels,
                        const Chart& chart) {
  std::vector<Point> points;
  int close = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& r = records[i];
    if (!r.prediction || !r.measurement) continue;
    const double measured = chart.value(r.measurement->memory, r.measurement->time);
    const double predicted = chart.value(r.prediction->memory, r.prediction->time);
    if (!std::isfinite(measured) || !std::isfinite(predicted)) continue;
    points.push_back({i, chart.scale.factor * measured, chart.scale.factor * predicted});
    if (r.error) close += std::abs((*r.error).*chart.error) <= kBand ? 1 : 0;
  }
  if (points.empty()) return "";
  const Axis axis = axis_for(points);
  std::string dots;
  for (const Point& point : points) {
    const ErrorReport error = records[point.cell].error.value_or(ErrorReport{NAN, NAN, NAN});
    const double difference = error.*chart.error;
    const std::string off =
        chart.relative ? fmt::format("{:+.2f} %", 100 * difference) : fmt::format("{:+.3f}", difference);
    dots += fmt::format(
        "<circle class=\"dot\" data-cell=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>Cell {}: {}. "
        "Predicted {:.{}f}, measured {:.{}f} {}: {}</title></circle>\n",
        point.cell, axis.x(point.measured), axis.y(point.predicted), points.size() > 200 ? 2.5 : 4.5,
        point.cell + 1, html_escaped(labels[point.cell]), point.predicted, chart.scale.digits, point.measured,
        chart.scale.digits, chart.scale.unit, off);
  }
  const std::string close_text = chart.relative ? "within 10 %" : "within 0.10";
  const std::string caption =
      fmt::format("{} of {} cells {} of the measurement", close, points.size(), close_text);
  return fmt::format(
      "<figure><figcaption><b>{0}</b><span>{1}</span></figcaption><svg class=\"scatter\" viewBox=\"0 0 {2} "
      "{3}\" tabindex=\"0\" role=\"group\" aria-roledescription=\"scatter plot\" aria-label=\"{0}, predicted "
      "against measured: {1}. Arrow keys go from cell to cell, Enter opens it.\"><clipPath "
      "id=\"{4}\"><rect x=\"{5}\" y=\"{6}\" width=\"{7}\" height=\"{7}\"/></clipPath>{8}<g "
      "clip-path=\"url(#{4})\">{9}</g>\n{10}</svg></figure>\n",
      chart.title, caption, kLeft + kSide + kRight, kTop + kSide + kBottom, chart.id, kLeft, kTop, kSide,
      axes_svg(axis, chart.quantity), lines_svg(axis, chart.relative), dots);
}

}  // namespace

std::string scatter_html(const std::vector<Record>& records) {
  const std::vector<std::string> keys = keys_to_show(records);
  std::vector<std::string> labels;
  labels.reserve(records.size());
  for (const Record& record : records) labels.push_back(label_of(record, keys));
  const Scale time = time_scale(records);
  const Scale memory = memory_scale(records);
  const std::string predicted = fmt::format("predicted{}", speed_suffix(AtSpeed::calibrated, records));
  const std::array<Chart, 3> charts = {{
      {"clip-time", "Step time, " + predicted, fmt::format("step time, {}", time.unit), time, true,
       &ErrorReport::step_time,
       [](const MemoryReport&, const StepTime& report) { return report.step.value; }},
      {"clip-memory", "Peak memory", fmt::format("peak memory, {}", memory.unit), memory, true,
       &ErrorReport::peak_memory,
       [](const MemoryReport& report, const StepTime&) { return static_cast<double>(report.peak.value); }},
      {"clip-bubble",
       "Bubble fraction, " + predicted,
       "bubble fraction, idle/step",
       {1, "", 3},
       false,
       &ErrorReport::bubble_fraction,
       [](const MemoryReport&, const StepTime& report) { return report.bubble_fraction; }},
  }};
  std::string figures;
  for (const Chart& chart : charts) figures += figure_html(records, labels, chart);
  if (figures.empty()) return "<p class=\"note\">No cell was both predicted and measured.</p>";
  return "<div class=\"charts\">" + figures +
         "</div><p class=\"note\"><svg class=\"key\" viewBox=\"0 0 30 12\" aria-hidden=\"true\"><path "
         "class=\"identity\" d=\"M0 6H30\"/></svg> prediction = measurement <svg class=\"key\" viewBox=\"0 0 "
         "30 "
         "12\" aria-hidden=\"true\"><rect class=\"band\" width=\"30\" height=\"12\"/></svg> \xc2\xb1"
         "10 % "
         "Points above the line are predicted too high.</p>";
}

}  // namespace plumbline
