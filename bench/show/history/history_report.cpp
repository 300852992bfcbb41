// A history as text, JSON and a page.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "bench/show/history/history.hpp"
#include "bench/show/report/escape.hpp"
#include "bench/show/text/figures.hpp"
#include "bench/show/text/text_table.hpp"
#include "bench/show/views/cluster/cluster_page.hpp"
#include "core/base/byte_text.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/one_line.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestFolder = 40;
constexpr std::size_t kLongestCell = 60;
constexpr std::size_t kCurveBins = 24;  // characters of a terminal's curve

struct Ends {
  double first = NAN;
  double last = NAN;
  int known = 0;
};

Ends ends_of(const std::vector<double>& values) {
  Ends ends;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    if (ends.known++ == 0) ends.first = value;
    ends.last = value;
  }
  return ends;
}

/// "▁▁▁▅▅": the newest values, between the smallest and the largest; "·" where one is missing. A range
/// within 2 % of the values is flat.
std::string curve_of(const std::vector<double>& values) {
  constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr double kFlat = 0.02;
  const std::size_t from = values.size() > kCurveBins ? values.size() - kCurveBins : 0;
  double low = INFINITY, high = -INFINITY;
  for (std::size_t i = from; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  const double range = std::max(high - low, kFlat * high);
  std::string curve;
  for (std::size_t i = from; i < values.size(); ++i) {
    const double share = std::isfinite(values[i]) && range > 0 ? (values[i] - low) / range : 0;
    curve += std::isfinite(values[i]) ? kBlocks[static_cast<std::size_t>(std::min(7.0, share * 8))] : "·";
  }
  return curve;
}

std::string folder_name(const History& history, std::size_t folder) {
  const std::string& version = history.versions[folder];
  return printable(history.folders[folder], kLongestFolder) +
         (version.empty() ? "" : fmt::format(" ({})", printable(version, kLongestFolder)));
}

std::string value_text(const HistoryChange& change, double value) {
  return change.memory ? readable_bytes(value) : readable_time(value);
}

std::string change_line(const History& history, const HistoryChange& change) {
  const ChangePoint& point = change.point;
  return fmt::format("{}: {} {} from {} on: {} -> {}{}", history.cells[point.series].name,
                     change.memory ? "peak memory" : "step time", readable_percent(point.relative()),
                     folder_name(history, point.at), value_text(change, point.before),
                     value_text(change, point.after),
                     change.memory ? "" : fmt::format(" (chance {:.1g})", point.probability));
}

std::string summary_line(const History& history) {
  const auto losses = std::count_if(history.changes.begin(), history.changes.end(),
                                    [](const HistoryChange& each) { return each.loss(); });
  return fmt::format(
      "{} cells in {} folders: {} changes for the worse, {} for the better{}{}", history.cells.size(),
      history.folders.size(), losses, static_cast<std::ptrdiff_t>(history.changes.size()) - losses,
      history.disturbed == 0 ? "" : fmt::format("; {} disturbed measurements left out", history.disturbed),
      history.regressed() ? "; the newest folder is worse than before" : "");
}

OrderedJson values_json(const std::vector<double>& values) {
  OrderedJson list = OrderedJson::array();
  for (const double value : values) list.push_back(std::isfinite(value) ? OrderedJson(value) : nullptr);
  return list;
}

/// A curve with a mark at every change.
std::string cell_svg(const History& history, std::size_t cell) {
  constexpr double kWidth = 760, kHeight = 120, kLeft = 80, kTop = 12, kBottom = 20;
  const std::vector<double>& steps = history.cells[cell].steps;
  double low = INFINITY, high = -INFINITY;
  for (const double step : steps) {
    if (!std::isfinite(step)) continue;
    low = std::min(low, step);
    high = std::max(high, step);
  }
  if (!(high > 0)) return "";
  const double margin = std::max(0.1 * (high - low), 0.01 * high);
  low -= margin;
  high += margin;
  const double last = static_cast<double>(std::max<std::size_t>(1, steps.size() - 1));
  const auto x = [&](std::size_t folder) {
    return kLeft + (kWidth - kLeft - 20) * static_cast<double>(folder) / last;
  };
  const auto y = [&](double step) {
    return kTop + (kHeight - kTop - kBottom) * (high - step) / (high - low);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" aria-label=\"step time by folder\">",
      kWidth, kHeight);
  for (const double at : {low + margin, high - margin})
    svg += fmt::format("<text x=\"4\" y=\"{:.1f}\" font-size=\"12\" fill=\"currentColor\">{}</text>",
                       y(at) + 4, readable_time(at));
  for (const HistoryChange& change : history.changes) {
    if (change.point.series != cell || change.memory) continue;
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"{3}\" "
        "stroke-dasharray=\"4 3\"/>",
        x(change.point.at), kTop, kHeight - kBottom, change.loss() ? "#b03a2e" : "#2e8b57");
  }
  std::string points;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!std::isfinite(steps[i])) continue;
    points += fmt::format("{:.1f},{:.1f} ", x(i), y(steps[i]));
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"#1f5fa8\"><title>{}: {}</title>"
        "</circle>",
        x(i), y(steps[i]), html_escaped(folder_name(history, i)), readable_time(steps[i]));
  }
  return svg + fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"#1f5fa8\"/></svg>", points);
}

}  // namespace

std::string history_text(const History& history, int width) {
  TextTable table;
  table.column("cell", true);
  for (const char* title : {"first", "newest", "change", "peak"}) table.column(title);
  table.column("step time by folder", true);
  for (const HistoryCell& cell : history.cells) {
    const Ends steps = ends_of(cell.steps);
    const Ends peaks = ends_of(cell.peaks);
    const bool known = steps.known > 0;
    table.row({printable(cell.name, kLongestCell), known ? readable_time(steps.first) : "-",
               known ? readable_time(steps.last) : "-",
               known ? readable_percent(steps.last / steps.first - 1) : "-",
               peaks.known > 0 ? readable_bytes(peaks.last) : "-", curve_of(cell.steps)});
  }
  std::string text;
  if (!history.folders.empty())
    text = fmt::format("{} folders, {} to {}\n", history.folders.size(), folder_name(history, 0),
                       folder_name(history, history.folders.size() - 1));
  text += table.text(width);
  for (const HistoryChange& change : history.changes)
    text += fmt::format("{} {}\n", change.loss() ? "worse:" : "better:", change_line(history, change));
  for (const std::string& note : history.notes) text += note + '\n';
  return text + summary_line(history) + '\n';
}

std::string history_json(const History& history) {
  OrderedJson json = {{"folders", OrderedJson::array()}, {"cells", OrderedJson::array()},
                      {"changes", OrderedJson::array()}, {"notes", history.notes},
                      {"disturbed", history.disturbed},  {"regressed", history.regressed()}};
  for (std::size_t i = 0; i < history.folders.size(); ++i)
    json["folders"].push_back({{"name", history.folders[i]}, {"version", history.versions[i]}});
  for (const HistoryCell& cell : history.cells)
    json["cells"].push_back(
        {{"cell", cell.name}, {"step_s", values_json(cell.steps)}, {"peak_bytes", values_json(cell.peaks)}});
  for (const HistoryChange& change : history.changes) {
    OrderedJson row = {{"cell", history.cells[change.point.series].name},
                       {"what", change.memory ? "peak memory" : "step time"},
                       {"folder", history.folders[change.point.at]},
                       {"before", change.point.before},
                       {"after", change.point.after},
                       {"relative", change.point.relative()},
                       {"loss", change.loss()}};
    if (!change.memory) row["probability"] = change.point.probability;
    json["changes"].push_back(std::move(row));
  }
  return output_json(json, 2) + "\n";
}

std::string history_page(const History& history) {
  PagePart changes{
      "Changes", summary_line(history), {{"cell", "what", "from", "before", "after", "chance"}, {}}, ""};
  for (const HistoryChange& change : history.changes)
    changes.table.rows.push_back({history.cells[change.point.series].name,
                                  fmt::format("{} {}", change.memory ? "peak memory" : "step time",
                                              readable_percent(change.point.relative())),
                                  folder_name(history, change.point.at),
                                  value_text(change, change.point.before),
                                  value_text(change, change.point.after),
                                  change.memory ? "" : fmt::format("{:.1g}", change.point.probability)});
  PagePart folders{"Folders", "", {{"folder", "version"}, {}}, ""};
  for (std::size_t i = 0; i < history.folders.size(); ++i)
    folders.table.rows.push_back({printable(history.folders[i], 200), printable(history.versions[i])});
  for (const std::string& note : history.notes) folders.table.rows.push_back({note, ""});
  std::vector<PagePart> parts = {std::move(changes)};
  for (std::size_t i = 0; i < history.cells.size(); ++i)
    parts.push_back({history.cells[i].name, "", {}, cell_svg(history, i)});
  parts.push_back(std::move(folders));
  return cluster_page("History", fmt::format("{} folders", history.folders.size()), parts);
}

}  // namespace plumbline
