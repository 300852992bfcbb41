#include "bench/show/report/html_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <optional>

#include "bench/record/record_store.hpp"
#include "bench/show/report/assets.hpp"
#include "bench/show/report/escape.hpp"
#include "bench/show/report/page_parts.hpp"
#include "bench/show/text/cell_columns.hpp"

namespace plumbline {
namespace {

/// Nothing is loaded and nothing runs but the page's own script and style.
std::string policy() {
  return fmt::format(
      "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; "
      "form-action 'none'",
      base64(report_style().sha256), base64(report_script().sha256));
}

/// "host, processor; plumbline 0.1.0" of every machine that made records.
std::string machines_html(const std::vector<Record>& records) {
  std::vector<std::string> machines;
  for (const Record& record : records) {
    std::string text = record.machine.cpu;
    if (!record.machine.gpu.empty()) text += (text.empty() ? "" : ", ") + record.machine.gpu;
    text += text.empty() ? record.machine.host : fmt::format(" ({})", record.machine.host);
    for (const auto& [name, version] : record.machine.versions)
      text += fmt::format(" \xc2\xb7 {} {}", name, version);
    if (std::find(machines.begin(), machines.end(), text) == machines.end()) machines.push_back(text);
  }
  std::string html;
  for (const std::string& machine : machines)
    html += fmt::format("<p class=\"machine\">{}</p>", html_escaped(machine));
  return html;
}

std::string section(const char* id, const char* title, const std::string& body) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\"><h2 id=\"{0}-title\">{1}</h2>{2}</section>\n", id,
      title, body);
}

constexpr const char* kDetail =
    "<div class=\"picker\"><button type=\"button\" id=\"previous\" aria-label=\"Previous "
    "cell\">\xe2\x86\x90</button><label>Cell <select id=\"pick\"></select></label><button type=\"button\" "
    "id=\"next\" aria-label=\"Next cell\">\xe2\x86\x92</button></div><div id=\"detail\"></div>"
    "<noscript><p class=\"note\">Details and timelines need JavaScript.</p></noscript>";

/// The cells that a page has room for: those with the worst step prediction, then those without an error; in
/// their order.
std::vector<std::size_t> cells_of_page(const std::vector<Record>& records, std::size_t most) {
  std::vector<std::size_t> cells(records.size());
  std::iota(cells.begin(), cells.end(), std::size_t{0});
  if (cells.size() <= most) return cells;
  const auto size_of = [&](std::size_t cell) {
    const std::optional<ErrorReport>& error = records[cell].error;
    const double size = error ? std::abs(error->judged_step_time()) : 0;
    return std::isnan(size) ? 0 : size;
  };
  std::stable_sort(cells.begin(), cells.end(),
                   [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
  cells.resize(most);
  std::sort(cells.begin(), cells.end());
  return cells;
}

std::string page_of(const ReportInput& input, const std::string& summary);

}  // namespace

std::string html_report(const ReportInput& input) {
  const std::vector<std::size_t> cells = cells_of_page(input.records, input.most_cells);
  if (cells.size() == input.records.size()) return page_of(input, summary_html(input.records));
  ReportInput part = {input.title,   {}, input.timelines, input.timeline_budget, input.most_cells,
                      input.progress};
  std::vector<std::size_t> numbers(input.records.size());
  part.records.reserve(cells.size());
  for (const std::size_t cell : cells) {
    part.records.push_back(input.records[cell]);
    numbers[cell] = part.records.size();
  }
  return page_of(
      part,
      summary_html(input.records, numbers) +
          fmt::format(
              "<p class=\"note\">The page shows {} of {} cells, those with the largest step time errors; "
              "compare --format csv has all.</p>",
              part.records.size(), input.records.size()));
}

namespace {

std::string page_of(const ReportInput& input, const std::string& summary) {
  const std::string fit = fit_html(input.records);
  const std::string experts = experts_html(input.records);
  const std::string recovery = recovery_html(input.records);
  // Without measurements there is nothing to compare predictions with.
  const bool against = input.records.empty() || any_measured(input.records);
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
      "http-equiv=\"Content-Security-Policy\" content=\"{}\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light "
      "dark\"><title>{} \xc2\xb7 plumbline</title><style>{}</style></head>\n<body>\n",
      policy(), html_escaped(input.title), report_style().text);
  html += fmt::format(
      "<a class=\"skip\" href=\"#summary\">Skip to the results</a><header><div><p "
      "class=\"brand\">plumbline</p><h1>{}</h1>{}</div><button type=\"button\" id=\"theme\" "
      "hidden>Dark</button></header>\n<nav aria-label=\"Sections\"><a href=\"#summary\">Summary</a>{}<a "
      "href=\"#cells\">Cells</a>{}{}{}<a href=\"#detail-section\">Cell in "
      "detail</a></nav>\n<main>\n",
      html_escaped(input.title), machines_html(input.records),
      against ? "<a href=\"#accuracy\">Accuracy</a>" : "",
      fit.empty() ? "" : "<a href=\"#fit\">What fits</a>",
      experts.empty() ? "" : "<a href=\"#experts\">Experts</a>",
      recovery.empty() ? "" : "<a href=\"#failures\">Failures</a>");
  html += section("summary", "Summary", summary);
  if (against) html += section("accuracy", "Predicted against measured", scatter_html(input.records));
  html += section("cells", "Cells", table_html(input.records));
  if (!fit.empty()) html += section("fit", "What fits", fit);
  if (!experts.empty()) html += section("experts", "Expert load", experts);
  if (!recovery.empty()) html += section("failures", "Failures", recovery);
  html += section("detail-section", "Cell in detail", kDetail);
  html += "</main>\n";
  html += data_html(input);
  return html + fmt::format("<script>{}</script>\n</body></html>\n", report_script().text);
}

}  // namespace

std::string html_report_of(const std::string& folder_or_file,
                           const std::function<void(int done, int all)>& progress) {
  namespace fs = std::filesystem;
  const fs::path path = fs::path(folder_or_file).lexically_normal();
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const std::string folder = is_folder ? path.string() : path.parent_path().string();
  ReportInput input;
  input.records = load_records(folder_or_file);
  input.title = path.has_filename() ? path.stem().string() : path.parent_path().filename().string();
  if (input.title.empty() || input.title == ".") input.title = fs::current_path(error).filename().string();
  input.timelines = [folder](const std::string& id) { return load_timelines(folder, id); };
  input.progress = progress;
  return html_report(input);
}

}  // namespace plumbline
