#include "bench/show/views/cluster/cluster_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/show/report/assets.hpp"
#include "bench/show/report/escape.hpp"
#include "bench/show/text/figures.hpp"

namespace plumbline {
namespace {

constexpr double kPercentWidth = 900;
constexpr double kPercentHeight = 380;
constexpr double kPercentLeft = 80;
constexpr double kPercentRight = 260;  // names of the curves
constexpr double kPercentTop = 40;
constexpr double kPercentBottom = 40;
constexpr std::array<const char*, 8> kCurveInks = {"#1f5fa8", "#b03a2e", "#2e8b57", "#8e44ad",
                                                   "#c77c11", "#16a0a0", "#7f8c8d", "#d81b60"};

std::string page_table_html(const PageTable& table) {
  std::string html = "<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>";
  for (std::size_t i = 0; i < table.heads.size(); ++i) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>", i == 0 ? "" : " class=\"num\"",
                        html_escaped(table.heads[i]));
  }
  html += "</tr></thead><tbody>";
  for (const std::vector<std::string>& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string text = html_escaped(row[i]);
      html += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", text)
                     : fmt::format("<td class=\"num\">{}</td>", text);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>";
}

/// Range of the values of all curves, a little widened.
std::pair<double, double> range_of(const std::vector<PlotCurve>& curves) {
  double low = INFINITY;
  double high = -INFINITY;
  for (const PlotCurve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  const double margin = std::max(0.05 * (high - low), 1e-3 * std::abs(high));
  return {low - margin, high + margin};
}

}  // namespace

std::string cluster_page(const std::string& title, const std::string& subtitle,
                         const std::vector<PagePart>& parts) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
      "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-{}'; base-uri "
      "'none'; "
      "form-action 'none'\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta "
      "name=\"color-scheme\" content=\"light dark\"><title>{} \xc2\xb7 "
      "plumbline</title><style>{}</style></head>\n"
      "<body>\n<header><div><p class=\"brand\">plumbline</p><h1>{}</h1><p "
      "class=\"machine\">{}</p></div></header>\n"
      "<main>\n",
      base64(report_style().sha256), html_escaped(title), report_style().text, html_escaped(title),
      html_escaped(subtitle));
  for (const PagePart& part : parts) {
    html += fmt::format("<section><h2>{}</h2>", html_escaped(part.title));
    if (!part.note.empty()) html += fmt::format("<p class=\"note\">{}</p>", html_escaped(part.note));
    if (!part.table.rows.empty()) html += page_table_html(part.table);
    if (!part.svg.empty()) html += fmt::format("<div class=\"scroll\" tabindex=\"0\">{}</div>", part.svg);
    html += "</section>\n";
  }
  return html + "</main>\n</body></html>\n";
}

std::string percentile_svg(const std::string& title, const std::string& unit,
                           const std::vector<PlotCurve>& curves) {
  const auto [low, high] = range_of(curves);
  const auto x = [](double percent) {
    return kPercentLeft + percent / 100 * (kPercentWidth - kPercentLeft - kPercentRight);
  };
  const auto y = [low = low, high = high](double value) {
    return kPercentTop + (high - value) / (high - low) * (kPercentHeight - kPercentTop - kPercentBottom);
  };
  std::string marks;
  for (int percent = 0; percent <= 100; percent += 25) {
    marks += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\" stroke=\"#ddd\"/><text x=\"{0:.1f}\" "
        "y=\"{3}\" "
        "text-anchor=\"middle\" font-size=\"10\" fill=\"#555\">{4} %</text>\n",
        x(percent), kPercentTop, kPercentHeight - kPercentBottom, kPercentHeight - kPercentBottom + 18,
        percent);
  }
  const double step = round_step((high - low) / 6);
  for (double at = std::ceil(low / step) * step; at <= high; at += step) {
    marks += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/><text x=\"{3}\" "
        "y=\"{4:.1f}\" "
        "text-anchor=\"end\" font-size=\"10\" fill=\"#555\">{5:.4g} {6}</text>\n",
        kPercentLeft, kPercentWidth - kPercentRight, y(at), kPercentLeft - 6, y(at) + 4, at, unit);
  }
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const char* ink = kCurveInks[i % kCurveInks.size()];
    std::string points;
    for (const auto& [percent, value] : curves[i].points)
      points += fmt::format("{:.1f},{:.1f} ", x(percent), y(value));
    marks += fmt::format("<polyline points=\"{}\" stroke=\"{}\" fill=\"none\" stroke-width=\"1.6\"/>\n",
                         points, ink);
    marks += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n",
                         kPercentWidth - kPercentRight + 14, kPercentTop + 12 + 18 * static_cast<double>(i),
                         ink, html_escaped(curves[i].name));
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" "
      "aria-label=\"{2}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#fff\"/>\n<text x=\"8\" y=\"20\" font-weight=\"bold\">{2}</text>\n{3}</svg>\n",
      kPercentWidth, kPercentHeight, html_escaped(title), marks);
}

}  // namespace plumbline
