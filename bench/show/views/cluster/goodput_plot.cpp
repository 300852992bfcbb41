#include "bench/show/views/cluster/goodput_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace plumbline {
namespace {

constexpr double kPlotWidth = 900;
constexpr double kPlotHeight = 460;
constexpr double kPlotLeft = 60;
constexpr double kPlotRight = 320;  // names of the curves
constexpr double kPlotTop = 40;
constexpr double kPlotBottom = 50;
constexpr double kShortest = 10;  // seconds
constexpr double kLongest = 6 * 3600;
constexpr int kPoints = 80;
constexpr std::array<const char*, 9> kInks = {"#000",    "#1f5fa8", "#b03a2e", "#2e8b57", "#8e44ad",
                                              "#c77c11", "#16a0a0", "#7f8c8d", "#d81b60"};

double plot_x(double seconds) {
  const double place = std::log(seconds / kShortest) / std::log(kLongest / kShortest);
  return kPlotLeft + place * (kPlotWidth - kPlotLeft - kPlotRight);
}

double plot_y(double share) {
  return kPlotTop + (1 - share) * (kPlotHeight - kPlotTop - kPlotBottom);
}

std::string curve(GoodputRequest request, const char* ink) {
  std::string points;
  const Seconds write = request.checkpoint.size / request.checkpoint.write;
  for (int i = 0; i <= kPoints; ++i) {
    const double interval = kShortest * std::pow(kLongest / kShortest, static_cast<double>(i) / kPoints);
    if (request.checkpoint.stall && interval + request.checkpoint.stall->value < write.value) continue;
    request.interval = Seconds{interval};
    points += fmt::format("{:.1f},{:.1f} ", plot_x(interval),
                          plot_y(std::clamp(expected_effective(request), 0.0, 1.0)));
  }
  return fmt::format("<polyline points=\"{}\" stroke=\"{}\" fill=\"none\" stroke-width=\"1.6\"/>\n", points,
                     ink);
}

std::string axes() {
  std::string text;
  for (int tenth = 0; tenth <= 10; ++tenth) {
    text += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\" font-size=\"10\" fill=\"#555\">{5} %</text>\n",
        kPlotLeft, kPlotWidth - kPlotRight, plot_y(tenth / 10.0), kPlotLeft - 6, plot_y(tenth / 10.0) + 4,
        10 * tenth);
  }
  constexpr std::array<std::pair<double, const char*>, 6> kTicks = {
      {{10, "10 s"}, {60, "1 min"}, {300, "5 min"}, {1200, "20 min"}, {3600, "1 h"}, {21600, "6 h"}}};
  for (const auto& [seconds, name] : kTicks) {
    text += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\" font-size=\"10\" fill=\"#555\">{4}</text>\n",
        plot_x(seconds), kPlotTop, kPlotHeight - kPlotBottom, kPlotHeight - kPlotBottom + 18, name);
  }
  return text;
}

}  // namespace

std::string goodput_svg(const GoodputRequest& request, const GoodputReport& report) {
  std::string marks = axes();
  std::vector<std::pair<std::string, GoodputRequest>> curves = changed_requests(request);
  // Another interval is another place on the same curve.
  std::erase_if(curves, [](const auto& each) { return each.first == "the best interval"; });
  curves.insert(curves.begin(), {"this configuration", request});
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const char* ink = kInks[i % kInks.size()];
    marks += curve(curves[i].second, ink);
    marks +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", kPlotWidth - kPlotRight + 14,
                    kPlotTop + 12 + 18 * static_cast<double>(i), ink, curves[i].first);
  }
  marks += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n",
                       plot_x(std::clamp(report.saves.interval.value, kShortest, kLongest)),
                       plot_y(report.expected));
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"8\" y=\"20\" font-weight=\"bold\">Expected effective time of {2} GPUs (%) by checkpoint "
      "interval</text>\n{3}</svg>\n",
      kPlotWidth, kPlotHeight, request.gpus, marks);
}

}  // namespace plumbline
