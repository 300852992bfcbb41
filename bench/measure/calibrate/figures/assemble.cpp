#include "bench/measure/calibrate/figures/assemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace plumbline::calibration {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::size_t place(const std::vector<double>& axis, double value) {
  return static_cast<std::size_t>(std::find(axis.begin(), axis.end(), value) - axis.begin());
}

std::size_t index_in(const Grid& grid, std::size_t x, std::size_t y, std::size_t z) {
  return (x * grid.y.size() + y) * grid.z.size() + z;
}

double& entry(Grid& grid, std::size_t x, std::size_t y, std::size_t z) {
  return grid.seconds[index_in(grid, x, y, z)];
}

Grid& grid_of(std::map<std::string, Grid>& grids, const std::string& key, const GridAxes& axes) {
  Grid& grid = grids[key];
  if (grid.empty()) {
    grid = {axes.x, axes.y, axes.z, {}};
    grid.seconds.assign(axes.x.size() * axes.y.size() * axes.z.size(), kUnknown);
  }
  return grid;
}

GridAxes axes_of(const Cell& cell) {
  if (cell.table == Table::by_row) return by_row_axes(cell.key);
  if (cell.table == Table::attention) return attention_axes(cell.key);
  return cell.key == kFp8Products ? fp8_gemm_axes() : gemm_axes(cell.key);
}

std::map<std::string, Grid>& grids_of(OperatorTimes& times, Table table) {
  return table == Table::by_row ? times.by_row : table == Table::attention ? times.attention : times.gemm;
}

/// Fills every unknown entry. If both neighbours with half the product of widths are known, from their rates;
/// else with the rate of its neighbour on the axis along which rates change least.
void fill_from_smaller(Grid& grid) {
  for (std::size_t x = 0; x < grid.x.size(); ++x) {
    for (std::size_t y = 0; y < grid.y.size(); ++y) {
      for (std::size_t z = 0; z < grid.z.size(); ++z) {
        double& here = entry(grid, x, y, z);
        if (!std::isnan(here)) continue;
        // Rates of products change with the widths in the same way at any number of rows: r(y, z) = r(y-1, z)
        // r(y, z-1) / r(y-1, z-1).
        const double across = y > 0 && z > 0 ? entry(grid, x, y - 1, z) * entry(grid, x, y, z - 1) /
                                                   entry(grid, x, y - 1, z - 1)
                                             : kUnknown;
        if (!std::isnan(across)) {
          here = across;
        } else if (x > 0) {
          here = entry(grid, x - 1, y, z) * grid.x[x] / grid.x[x - 1];
        } else if (y > 0) {
          here = entry(grid, x, y - 1, z) * grid.y[y] / grid.y[y - 1];
        } else if (z > 0) {
          here = entry(grid, x, y, z - 1) * grid.z[z] / grid.z[z - 1];
        }
      }
    }
  }
}

void fill_holes(Grid& grid, const Grid& from) {
  for (std::size_t i = 0; i < grid.seconds.size(); ++i) {
    if (std::isnan(grid.seconds[i])) grid.seconds[i] = from.seconds[i];
  }
}

/// Entries that a table lacks and the next smaller working set has: few bytes, wherever they come from.
void fill_from_smaller_set(OperatorTimes& table, const OperatorTimes& smaller) {
  for (auto member : {&OperatorTimes::gemm, &OperatorTimes::by_row}) {
    for (auto& [key, grid] : table.*member) {
      const auto found = (smaller.*member).find(key);
      if (found != (smaller.*member).end()) fill_holes(grid, found->second);
    }
  }
  for (auto& [key, curve] : table.memory_bound) {
    const auto found = smaller.memory_bound.find(key);
    if (found == smaller.memory_bound.end()) continue;
    const Curve& from = found->second;
    const auto lacking =
        std::lower_bound(from.sizes.begin(), from.sizes.end(), curve.sizes.front()) - from.sizes.begin();
    const auto put_before = [&](std::vector<double>& to, const std::vector<double>& all) {
      if (!all.empty()) to.insert(to.begin(), all.begin(), all.begin() + lacking);
    };
    put_before(curve.sizes, from.sizes);
    put_before(curve.seconds, from.seconds);
    put_before(curve.spread, from.spread);
  }
}

/// Sizes beyond the last of a curve that the next larger working set has: operands that no cache holds.
void add_larger_sizes(OperatorTimes& table, const OperatorTimes& larger) {
  for (auto& [key, curve] : table.memory_bound) {
    const Curve& from = larger.memory_bound.at(key);
    for (std::size_t i = 0; i < from.sizes.size(); ++i) {
      if (from.sizes[i] <= curve.sizes.back()) continue;
      curve.sizes.push_back(from.sizes[i]);
      curve.seconds.push_back(from.seconds[i]);
      if (!curve.spread.empty()) curve.spread.push_back(i < from.spread.size() ? from.spread[i] : 0);
    }
  }
}

/// Sequences too long to be measured: in proportion to the pairs of tokens.
void fill_longer_sequences(Grid& attention) {
  for (std::size_t x = 1; x < attention.x.size(); ++x) {
    const double more =
        attention.x[x] * (attention.x[x] + 1) / (attention.x[x - 1] * (attention.x[x - 1] + 1));
    for (std::size_t y = 0; y < attention.y.size(); ++y) {
      for (std::size_t z = 0; z < attention.z.size(); ++z) {
        double& here = entry(attention, x, y, z);
        if (std::isnan(here)) here = entry(attention, x - 1, y, z) * more;
      }
    }
  }
}

/// Fills every unknown entry of attention with dropout from attention without dropout. The factor is that of
/// an entry where both are known: with fewer heads that share keys, else with a shorter sequence.
void fill_from_undropped(Grid& dropping, Grid& plain) {
  for (std::size_t x = 0; x < plain.x.size(); ++x) {
    for (std::size_t y = 0; y < plain.y.size(); ++y) {
      for (std::size_t z = 0; z < plain.z.size(); ++z) {
        double& here = entry(dropping, x, y, z);
        if (!std::isnan(here) || (x == 0 && z == 0)) continue;
        const std::size_t known_x = z > 0 ? x : x - 1;
        const std::size_t known_z = z > 0 ? z - 1 : z;
        here =
            entry(plain, x, y, z) * entry(dropping, known_x, y, known_z) / entry(plain, known_x, y, known_z);
      }
    }
  }
}

}  // namespace

std::vector<OperatorTimes> assemble(const std::vector<Cell>& cells, const std::vector<double>& seconds,
                                    const std::vector<double>& spread) {
  std::vector<OperatorTimes> tables(kWorkingSets.size());
  for (std::size_t set = 0; set < tables.size(); ++set) tables[set].working_set = kWorkingSets[set];
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    if (cell.table == Table::level) continue;
    OperatorTimes& table = tables[cell.working_set];
    if (cell.table == Table::memory_bound) {
      Curve& curve = table.memory_bound[cell.key];
      curve.sizes.push_back(cell.at[0]);
      curve.seconds.push_back(seconds[i]);
      if (!spread.empty()) curve.spread.push_back(spread[i]);
      continue;
    }
    const GridAxes axes = axes_of(cell);
    Grid& grid = grid_of(grids_of(table, cell.table), cell.key, axes);
    const std::size_t at =
        index_in(grid, place(axes.x, cell.at[0]), place(axes.y, cell.at[1]), place(axes.z, cell.at[2]));
    grid.seconds[at] = seconds[i];
    if (spread.empty()) continue;
    grid.spread.resize(grid.seconds.size());
    grid.spread[at] = spread[i];
  }
  for (OperatorTimes& table : tables) {
    for (const char* pass : {"forward", "backward"}) {
      for (const DType type : {DType::fp32, DType::bf16}) {
        const auto plain = table.attention.find(fmt::format("{}.{}", pass, name_of(type)));
        if (plain != table.attention.end()) fill_longer_sequences(plain->second);
        const auto dropping = table.attention.find(fmt::format("{}_dropout.{}", pass, name_of(type)));
        if (dropping == table.attention.end()) continue;
        fill_from_undropped(dropping->second, plain->second);
      }
    }
  }
  fill_from_smaller_set(tables[2], tables[1]);
  add_larger_sizes(tables[1], tables[2]);
  for (std::size_t set = tables.size(); set-- > 0;) {
    for (auto member : {&OperatorTimes::gemm, &OperatorTimes::by_row}) {
      for (auto& [key, grid] : tables[set].*member) {
        if (set + 1 < tables.size()) {
          fill_holes(grid, (tables[set + 1].*member).at(key));  // without holes by now
        } else {
          fill_from_smaller(grid);
        }
      }
    }
  }
  return tables;
}

FlopsPerSecond best_gemm_rate(const std::vector<OperatorTimes>& tables, DType type) {
  double best = 0;
  for (const OperatorTimes& table : tables) {
    for (const auto& [key, grid] : table.gemm) {
      if (key.substr(key.find('.') + 1) != name_of(type)) continue;
      std::size_t i = 0;
      for (const double x : grid.x) {
        for (const double y : grid.y) {
          for (const double z : grid.z) best = std::max(best, 2 * x * y * z / grid.seconds[i++]);
        }
      }
    }
  }
  return {best};
}

}  // namespace plumbline::calibration
