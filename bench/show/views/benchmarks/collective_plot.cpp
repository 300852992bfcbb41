#include "bench/show/views/benchmarks/collective_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "bench/show/report/escape.hpp"

namespace plumbline {
namespace {

constexpr double kPanelWidth = 760;
constexpr double kPanelHeight = 340;
constexpr double kPanelLeft = 74;
constexpr double kPanelRight = 130;  // names of the curves
constexpr double kPanelTop = 34;
constexpr double kPanelBottom = 40;
constexpr const char* kMeasuredInk = "#1f5fa8";
constexpr const char* kPredictedInk = "#b03a2e";
constexpr const char* kLimitInk = "#7f8c8d";

using SecondsOf = std::function<std::optional<double>(const CollectiveRow&)>;

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:g} us", std::round(seconds * 1e9) / 1e3);
  return seconds < 1 ? fmt::format("{:g} ms", seconds * 1e3) : fmt::format("{:g} s", seconds);
}

std::string size_text(double bytes) {
  if (bytes >= 0x1p30) return fmt::format("{:g} GiB", bytes / 0x1p30);
  if (bytes >= 0x1p20) return fmt::format("{:g} MiB", bytes / 0x1p20);
  return bytes >= 0x1p10 ? fmt::format("{:g} KiB", bytes / 0x1p10) : fmt::format("{:g} B", bytes);
}

/// Axes and curves of one benchmark.
class Panel {
 public:
  Panel(std::span<const CollectiveRow> rows, double top) : rows_(rows), top_(top) {
    for (const CollectiveRow& row : rows) {
      least_size_ = std::min(least_size_, static_cast<double>(row.size));
      most_size_ = std::max(most_size_, static_cast<double>(row.size));
      for (const double seconds : {row.seconds, row.predicted_s.value_or(0), row.low_s, row.high_s}) {
        if (!(seconds > 0)) continue;
        least_s_ = std::min(least_s_, seconds);
        most_s_ = std::max(most_s_, seconds);
      }
    }
    least_s_ = std::pow(10, std::floor(std::log10(least_s_)));
    most_s_ = std::pow(10, std::ceil(std::log10(most_s_) + 1e-9));
  }

  std::string text() const {
    const BenchedKind& kind = kind_of(rows_.front().call);
    std::string text = fmt::format(
        "<text x=\"8\" y=\"{:.1f}\" font-weight=\"bold\">{}, {} ranks of the {} group, {}: time by "
        "size</text>\n",
        top_ + 20, kind.name, rows_.front().ranks, html_escaped(rows_.front().group),
        rows_.front().in_place ? "in place" : "out of place");
    text += axes();
    text += curve([](const CollectiveRow& row) { return std::optional(row.limit_s); }, kLimitInk, "limit",
                  "4 4", 2);
    text +=
        curve([](const CollectiveRow& row) { return row.predicted_s; }, kPredictedInk, "predicted", "", 1);
    text += curve([](const CollectiveRow& row) { return std::optional(row.seconds); }, kMeasuredInk,
                  "measured", "", 0);
    for (const CollectiveRow& row : rows_) {
      text += fmt::format(
          "<circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"3\" fill=\"{2}\"/>"
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{3:.1f}\" y2=\"{4:.1f}\" stroke=\"{2}\"/>\n",
          x(static_cast<double>(row.size)), y(row.seconds), kMeasuredInk, y(row.low_s), y(row.high_s));
    }
    return text;
  }

 private:
  double x(double size) const {
    const double range = std::max(std::log(most_size_ / least_size_), 1e-9);
    return kPanelLeft + std::log(size / least_size_) / range * (kPanelWidth - kPanelLeft - kPanelRight);
  }
  double y(double seconds) const {
    const double range = std::log(most_s_ / least_s_);
    const double share = std::clamp(std::log(std::max(seconds, least_s_) / least_s_) / range, 0.0, 1.0);
    return top_ + kPanelTop + (1 - share) * (kPanelHeight - kPanelTop - kPanelBottom);
  }

  std::string axes() const {
    std::string text;
    for (double seconds = least_s_; seconds <= most_s_ * 1.01; seconds *= 10) {
      text += fmt::format(
          "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
          "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\" font-size=\"10\" fill=\"#555\">{5}</text>\n",
          kPanelLeft, kPanelWidth - kPanelRight, y(seconds), kPanelLeft - 6, y(seconds) + 4,
          seconds_text(seconds));
    }
    const double doublings = std::max(1.0, std::ceil(std::log2(most_size_ / least_size_) / 8));
    for (double size = least_size_; size <= most_size_ * 1.01; size *= std::exp2(doublings)) {
      text += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
          "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\" font-size=\"10\" "
          "fill=\"#555\">{4}</text>\n",
          x(size), top_ + kPanelTop, top_ + kPanelHeight - kPanelBottom,
          top_ + kPanelHeight - kPanelBottom + 16, size_text(size));
    }
    return text;
  }

  std::string curve(const SecondsOf& seconds_of, const char* ink, const char* name, const char* dashes,
                    int line) const {
    std::string points;
    for (const CollectiveRow& row : rows_) {
      const std::optional<double> seconds = seconds_of(row);
      if (!seconds || !(*seconds > 0)) continue;
      points += fmt::format("{:.1f},{:.1f} ", x(static_cast<double>(row.size)), y(*seconds));
    }
    if (points.empty()) return "";
    return fmt::format(
        "<polyline points=\"{}\" stroke=\"{}\" fill=\"none\" stroke-width=\"1.6\" stroke-dasharray=\"{}\"/>\n"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n",
        points, ink, dashes, kPanelWidth - kPanelRight + 14, top_ + kPanelTop + 12 + 18 * line, ink, name);
  }

  std::span<const CollectiveRow> rows_;
  double top_;
  double least_size_ = 1e18, most_size_ = 1;
  double least_s_ = 1e6, most_s_ = 1e-9;
};

}  // namespace

std::string collective_svg(const std::vector<CollectiveRow>& rows) {
  std::string panels;
  double top = 0;
  for (auto first = rows.begin(); first != rows.end();) {
    const auto last = std::find_if(first, rows.end(), [&](const CollectiveRow& row) {
      return row.call != first->call || row.in_place != first->in_place;
    });
    panels += Panel({first, last}, top).text();
    top += kPanelHeight;
    first = last;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "{2}</svg>\n",
      kPanelWidth, std::max(top, 20.0), panels);
}

}  // namespace plumbline
