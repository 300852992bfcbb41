// Failures of whole runs: lanes over time, and where it went, measured and predicted.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/show/report/escape.hpp"
#include "bench/show/report/page_parts.hpp"
#include "bench/show/report/recovery_lanes.hpp"
#include "bench/show/text/figures.hpp"
#include "bench/show/text/record_tables.hpp"

namespace plumbline {
namespace {

constexpr double kLanesLeft = 150;
constexpr double kLanesWidth = 830;
constexpr double kLaneHeight = 18;
constexpr double kLaneStep = 24;
constexpr double kProgressHeight = 70;
constexpr double kNarrowest = 1.5;  // to keep short spans visible
constexpr std::size_t kMostRows = 200;

std::string lanes_svg(const RecoveryReport& report) {
  const RecoveryLanes built = recovery_lanes(report);
  const double total = std::max(report.total.value, 1e-9);
  const auto x = [&](Seconds at) {
    return kLanesLeft + kLanesWidth * std::clamp(at.value / total, 0.0, 1.0);
  };
  const double lanes_end = 6 + kLaneStep * static_cast<double>(built.lanes.size());
  const double bottom = lanes_end + kProgressHeight + 10;
  std::string svg;
  const double tick = round_step(total / 8);
  for (int i = 0; i * tick <= total * (1 + 1e-9); ++i) {
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} 4V{1:.1f}\"/><text class=\"tick\" x=\"{0:.1f}\" y=\"{2:.1f}\" "
        "text-anchor=\"middle\">{3:g} s</text>",
        x({i * tick}), bottom, bottom + 14, i * tick);
  }
  double y = 6;
  for (const RecoveryLane& lane : built.lanes) {
    svg += fmt::format("<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>",
                       kLanesLeft - 8, y + kLaneHeight - 5, lane.name);
    for (const RecoverySpan& span : lane.spans) {
      svg += fmt::format(
          "<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\"><title>{}: {}, at {}, "
          "{}</title></rect>\n",
          lane.style, x(span.begin), y, std::max(kNarrowest, x(span.end) - x(span.begin)), kLaneHeight,
          lane.name, html_escaped(span.what), readable_time(span.begin.value),
          readable_time((span.end - span.begin).value));
    }
    y += kLaneStep;
  }
  double most = 1;
  for (const RecoveryProgress& each : built.progress) most = std::max(most, each.steps);
  std::string points;
  for (const RecoveryProgress& each : built.progress)
    points += fmt::format("{:.2f},{:.2f} ", x(each.at), bottom - kProgressHeight * each.steps / most);
  svg += fmt::format(
      "<text class=\"tick\" x=\"{0}\" y=\"{1:.1f}\" text-anchor=\"end\">completed steps</text><text "
      "class=\"tick\" "
      "x=\"{0}\" y=\"{2:.1f}\" text-anchor=\"end\">{3:.0f}</text><polyline class=\"progress\" "
      "points=\"{4}\"/><text class=\"tick\" x=\"{0}\" y=\"{5:.1f}\" text-anchor=\"end\">wall time</text>",
      kLanesLeft - 8, bottom, bottom - kProgressHeight + 8, most, points, bottom + 14);
  return fmt::format(
      "<svg class=\"recovery\" viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"Run timeline: steps, "
      "lost work, checkpoints, failures, detection and restart; the tables below have the figures\">{}</svg>",
      kLanesLeft + kLanesWidth + 20, bottom + 20, svg);
}

std::string row_of(const std::string& name, const std::vector<std::string>& cells) {
  std::string html = fmt::format("<tr><th scope=\"row\">{}</th>", html_escaped(name));
  for (const std::string& cell : cells) html += fmt::format("<td>{}</td>", html_escaped(cell));
  return html + "</tr>";
}

std::string table_of(const std::string& caption, const std::vector<const char*>& heads,
                     const std::string& rows) {
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"{0}\"><table><caption>{0}</caption><thead><tr>",
      caption);
  for (const char* head : heads) html += fmt::format("<th scope=\"col\">{}</th>", head);
  return html + "</tr></thead><tbody>" + rows + "</tbody></table></div>";
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

std::string goodput_table(const RecoveryReport& report) {
  const PredictedGoodput& predicted = report.predicted;
  std::string rows = row_of("measured", {percent(report.goodput), ""});
  const auto difference = [&](double share) {
    return fmt::format("{:+.1f} points", 100 * (share - report.goodput));
  };
  rows += row_of("predicted for these failures", {percent(predicted.of_seed), difference(predicted.of_seed)});
  rows += row_of("predicted for random failures",
                 {fmt::format("{} (90 % interval: {} to {})", percent(predicted.mean), percent(predicted.low),
                              percent(predicted.high)),
                  difference(predicted.mean)});
  return table_of("Goodput: share of wall time spent on work that is kept", {"", "goodput", "difference"},
                  rows);
}

std::string parts_table(const RecoveryReport& report) {
  const std::pair<const char*, Seconds> parts[] = {
      {"useful", report.useful},           {"checkpoints", report.stalls},
      {"lost work", report.lost},          {"detection", report.detect},
      {"restart", report.restart},         {"waiting for ranks", report.waiting},
      {"missing replicas", report.missing}};
  std::string rows;
  for (const auto& [name, time] : parts) {
    if (time.value != 0)
      rows +=
          row_of(name, {readable_time(time.value), percent(time.value / std::max(report.total.value, 1e-9))});
  }
  return table_of("Wall time breakdown", {"", "time", "share"}, rows);
}

std::string failures_table(const RecoveryReport& report) {
  std::string rows;
  const std::size_t shown = std::min(report.failures.size(), kMostRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const FailureReport& failure = report.failures[i];
    rows += row_of(readable_time(failure.at.value),
                   {failure.kind, fmt::format("{}", failure.rank), readable_time(failure.detect.value),
                    readable_time((failure.waiting + failure.restart).value),
                    readable_time(failure.lost.value), fmt::format("{}", failure.lost_steps),
                    fmt::format("{}", failure.resumed_step), fmt::format("{}", failure.replicas)});
  }
  if (rows.empty()) return "";
  std::string caption = "Failures and returns of replicas";
  if (shown < report.failures.size())
    caption += fmt::format(": the first {} of {}", shown, report.failures.size());
  return table_of(caption,
                  {"at", "kind", "rank", "detected after", "restarted after", "lost work", "steps",
                   "from step", "replicas"},
                  rows);
}

}  // namespace

std::string recovery_html(const std::vector<Record>& records) {
  const std::vector<std::string> keys = keys_to_show(records);
  std::string html;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].recovery) continue;
    const RecoveryReport& report = *records[i].recovery;
    html += fmt::format("<h3>Cell {}{}: {} steps in {}, {} failures</h3>", i + 1,
                        html_escaped(records.size() > 1 ? ", " + label_of(records[i], keys) : ""),
                        report.steps, readable_time(report.total.value), count_failures(report));
    html += "<div class=\"run-over-time\" tabindex=\"0\" role=\"region\" aria-label=\"Run timeline\">" +
            lanes_svg(report) + "</div>" + goodput_table(report) + parts_table(report) +
            failures_table(report);
  }
  return html;
}

}  // namespace plumbline
