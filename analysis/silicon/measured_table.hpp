// Files of measured times (analysis/silicon/tables/), made by results/published/import_silicon.py.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/silicon/time_grid.hpp"

namespace plumbline::silicon {

/// A section of a file: lines of times along the last axis, each line with its keys.
struct MeasuredTable {
  struct Line {
    std::vector<std::string_view> keys;
    std::vector<double> seconds;  // as many as last_values at most; NaN: not measured
  };
  std::vector<std::string_view> key_names;
  std::string_view last_axis;
  std::vector<double> last_values;
  std::vector<Line> lines;
};

/// The sections of a file by name; views into `text`. Throws InputError with the line for any other form.
std::map<std::string, MeasuredTable, std::less<>> parse_measured_tables(std::string_view text,
                                                                        const std::string& origin);

/// A key column, and how times go on between its values.
using KeyAxis = std::pair<std::string_view, Spacing>;
/// Keys that must be equal.
using Keys = std::vector<std::pair<std::string_view, std::string>>;

/// The filled grid of the lines with these keys, over the axes `along` and then the last one; none without
/// such lines. `model`: of the grid (time_grid.hpp).
std::optional<TimeGrid> grid_of(const MeasuredTable& table, const Keys& keys,
                                const std::vector<KeyAxis>& along, Spacing last,
                                const SecondsOfPoint& model = {});

}  // namespace plumbline::silicon
