#include "bench/calibrate/assemble.hpp"

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

double& entry(Grid& grid, std::size_t x, std::size_t y, std::size_t z) {
  return grid.seconds[(x * grid.y.size() + y) * grid.z.size() + z];
}

Grid& grid_of(std::map<std::string, Grid>& grids, const std::string& key, const GridAxes& axes) {
  Grid& grid = grids[key];
  if (grid.empty()) {
    grid = {axes.x, axes.y, axes.z, {}};
    grid.seconds.assign(axes.x.size() * axes.y.size() * axes.z.size(), kUnknown);
  }
  return grid;
}

/// Every unknown entry takes the rate of its neighbour on the axis along which rates change least.
void fill_from_smaller(Grid& grid) {
  for (std::size_t x = 0; x < grid.x.size(); ++x) {
    for (std::size_t y = 0; y < grid.y.size(); ++y) {
      for (std::size_t z = 0; z < grid.z.size(); ++z) {
        double& here = entry(grid, x, y, z);
        if (!std::isnan(here)) continue;
        if (x > 0) {
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

/// Every unknown entry of attention that drops probabilities takes as many times as long as attention that
/// does not, as it takes where both are known for fewer heads that share keys, else for a shorter sequence.
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

std::vector<OperatorTimes> assemble(const std::vector<Cell>& cells, const std::vector<double>& seconds) {
  std::vector<OperatorTimes> tables(kWorkingSets.size());
  for (std::size_t set = 0; set < tables.size(); ++set) tables[set].working_set = kWorkingSets[set];
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    OperatorTimes& table = tables[cell.working_set];
    if (cell.table == Table::memory_bound) {
      Curve& curve = table.memory_bound[cell.key];
      curve.sizes.push_back(cell.at[0]);
      curve.seconds.push_back(seconds[i]);
      continue;
    }
    const bool gemm = cell.table == Table::gemm;
    const GridAxes axes = !gemm ? attention_axes() : cell.key == kFp8Products ? fp8_gemm_axes() : gemm_axes();
    Grid& grid = grid_of(gemm ? table.gemm : table.attention, cell.key, axes);
    entry(grid, place(axes.x, cell.at[0]), place(axes.y, cell.at[1]), place(axes.z, cell.at[2])) = seconds[i];
  }
  for (OperatorTimes& table : tables) {
    for (const char* pass : {"forward", "backward"}) {
      for (const DType type : {DType::fp32, DType::bf16}) {
        const auto dropping = table.attention.find(fmt::format("{}_dropout.{}", pass, name_of(type)));
        if (dropping == table.attention.end()) continue;
        fill_from_undropped(dropping->second, table.attention.at(fmt::format("{}.{}", pass, name_of(type))));
      }
    }
  }
  for (std::size_t set = tables.size(); set-- > 0;) {
    for (auto& [key, grid] : tables[set].gemm) {
      if (set + 1 < tables.size()) {
        const std::vector<double>& larger = tables[set + 1].gemm.at(key).seconds;
        for (std::size_t i = 0; i < larger.size(); ++i) {
          if (std::isnan(grid.seconds[i])) grid.seconds[i] = larger[i];
        }
      } else {
        fill_from_smaller(grid);
      }
    }
  }
  return tables;
}

void merge(std::vector<OperatorTimes>& tables, const std::vector<OperatorTimes>& more) {
  if (tables.empty()) {
    tables = more;
    return;
  }
  for (std::size_t set = 0; set < tables.size() && set < more.size(); ++set) {
    tables[set].gemm.insert(more[set].gemm.begin(), more[set].gemm.end());
    tables[set].attention.insert(more[set].attention.begin(), more[set].attention.end());
    tables[set].memory_bound.insert(more[set].memory_bound.begin(), more[set].memory_bound.end());
  }
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
