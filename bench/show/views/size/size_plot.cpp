#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "bench/show/report/escape.hpp"
#include "bench/show/text/figures.hpp"
#include "bench/show/views/size/size_report.hpp"

namespace plumbline {
namespace {

constexpr double kWide = 900;
constexpr double kHigh = 480;
constexpr double kLeft = 70;
constexpr double kRight = 230;  // names of the lines
constexpr double kTop = 40;
constexpr double kBottom = 60;
constexpr std::array<const char*, 6> kLineInks = {"#1f5fa8", "#b03a2e", "#2e8b57",
                                                  "#8e44ad", "#c77c11", "#16a0a0"};

/// A logarithmic axis from `least` to `most`.
struct Axis {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;
  double from = 0;
  double to = 1;

  void take(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  double at(double value) const {
    const double whole = std::log(most / least);
    return from + (whole > 0 ? std::log(value / least) / whole : 0.5) * (to - from);
  }
  /// 1, 2 and 5 times powers of ten within.
  std::vector<double> ticks() const {
    std::vector<double> list;
    for (double power = std::pow(10, std::floor(std::log10(least))); power <= most; power *= 10) {
      for (const double times : {1.0, 2.0, 5.0}) {
        if (times * power >= least && times * power <= most) list.push_back(times * power);
      }
    }
    return list;
  }
};

std::string axis_marks(const Axis& gpus, const Axis& days) {
  std::string text;
  for (const double tick : days.ticks())
    text += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/><text x=\"{3}\" "
        "y=\"{2:.1f}\" dy=\"4\" text-anchor=\"end\" fill=\"#555\">{4}</text>\n",
        kLeft, kWide - kRight, days.at(tick), kLeft - 6, readable_number(tick));
  for (const double tick : gpus.ticks())
    text += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#ddd\"/><text x=\"{0:.1f}\" "
        "y=\"{3}\" text-anchor=\"middle\" fill=\"#555\">{4}</text>\n",
        gpus.at(tick), kTop, kHigh - kBottom, kHigh - kBottom + 18, readable_number(tick));
  return text + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">GPUs</text>\n",
                            (kLeft + kWide - kRight) / 2, kHigh - 18);
}

std::string line_of(const std::vector<SizedJob>& jobs, const Axis& gpus, const Axis& days, const char* ink) {
  std::string points;
  std::string marks;
  for (const SizedJob& job : jobs) {
    const double x = gpus.at(job.gpus);
    points += fmt::format("{:.1f},{:.1f} ", x, days.at(job.days));
    if (job.interval)
      marks += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
          "stroke-opacity=\"0.4\" stroke-width=\"4\"/>\n",
          x, days.at(job.days * job.interval->low), days.at(job.days * job.interval->high), ink);
    marks += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{} GPUs, {:.1f} "
        "days, {} GPU-hours</title></circle>\n",
        x, days.at(job.days), ink, grouped_digits(job.gpus), job.days, grouped_digits(job.hours.sum()));
  }
  return fmt::format("<polyline points=\"{}\" stroke=\"{}\" fill=\"none\" stroke-width=\"1.6\"/>\n{}", points,
                     ink, marks);
}

}  // namespace

std::string size_svg(const SizeAnswer& answer) {
  Axis gpus;
  Axis days;
  for (const SizedHardware& each : answer.hardware) {
    for (const SizedJob& job : frontier_of(each.sizing.jobs)) {
      gpus.take(job.gpus);
      days.take(job.days * (job.interval ? job.interval->low : 1));
      days.take(job.days * (job.interval ? job.interval->high : 1));
    }
  }
  if (answer.days) days.take(*answer.days);
  gpus.from = kLeft + 10;
  gpus.to = kWide - kRight - 10;
  days.from = kHigh - kBottom - 10;
  days.to = kTop + 10;
  std::string marks = axis_marks(gpus, days);
  if (answer.days)
    marks += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#000\" stroke-dasharray=\"5 4\"/>"
        "<text x=\"{3}\" y=\"{2:.1f}\" dy=\"4\">{4:g} days</text>\n",
        kLeft, kWide - kRight, days.at(*answer.days), kWide - kRight + 8, *answer.days);
  double row = kTop + 12;
  for (std::size_t i = 0; i < answer.hardware.size(); ++i) {
    const char* ink = kLineInks[i % kLineInks.size()];
    marks += line_of(frontier_of(answer.hardware[i].sizing.jobs), gpus, days, ink);
    marks += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", kWide - kRight + 14, row,
                         ink, html_escaped(answer.hardware[i].name));
    row += 18;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"8\" y=\"20\" font-weight=\"bold\">Days by GPUs: {2}, {3:g}B tokens; bars: 80 % interval of "
      "comparable runs</text>\n{4}</svg>\n",
      kWide, kHigh, html_escaped(answer.config.model.name), answer.tokens / 1e9, marks);
}

}  // namespace plumbline
