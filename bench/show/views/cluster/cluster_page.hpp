// A page of tables and pictures without a script: output of `goodput` and `stragglers` with --format html.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace plumbline {

/// The first cell of a row is its head; further ones are figures.
struct PageTable {
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> rows;
};

struct PagePart {
  std::string title;
  std::string note;  // above the table; may be empty
  PageTable table;   // no rows: none
  std::string svg;   // of this program; may be empty
};

/// One file that needs no other, with the report's style sheet; nothing in it runs. Texts are escaped.
std::string cluster_page(const std::string& title, const std::string& subtitle,
                         const std::vector<PagePart>& parts);

/// A line of a plot.
struct PlotCurve {
  std::string name;
  std::vector<std::pair<double, double>> points;
};
/// Curves over an axis from 0 to 100 %, with their names alongside them, as an SVG picture.
std::string percentile_svg(const std::string& title, const std::string& unit,
                           const std::vector<PlotCurve>& curves);

}  // namespace plumbline
