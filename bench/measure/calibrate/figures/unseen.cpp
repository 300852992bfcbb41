#include "bench/measure/calibrate/figures/unseen.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "core/base/error.hpp"

namespace plumbline::calibration {
namespace {

/// Elements, or operations of a product and of an attention up to constant factors.
double size_of_cell(const Cell& cell) {
  switch (cell.table) {
    case Table::gemm:
      return cell.at[0] * cell.at[1] * cell.at[2];
    case Table::attention:
      return cell.at[0] * cell.at[0] * cell.at[1];
    case Table::memory_bound:
    case Table::by_row:
      return cell.at[0];
    case Table::level:
      return 1;
  }
  return 1;
}

double distance(const Cell& a, const Cell& b) {
  const double another_operator = a.key == b.key ? 0 : 1000;
  double sum =
      another_operator +
      std::abs(static_cast<double>(a.working_set) - static_cast<double>(b.working_set)) * std::log(4.0);
  for (std::size_t i = 0; i < a.at.size(); ++i) sum += std::abs(std::log(a.at[i] / b.at[i]));
  return sum;
}

}  // namespace

std::size_t fill_unseen(const std::vector<Cell>& cells, std::vector<double>& seconds) {
  std::vector<std::size_t> seen, unseen;
  for (std::size_t i = 0; i < cells.size(); ++i) (std::isnan(seconds[i]) ? unseen : seen).push_back(i);
  for (const std::size_t i : unseen) {
    double nearest = std::numeric_limits<double>::infinity();
    for (const std::size_t j : seen) {
      if (cells[j].table != cells[i].table) continue;
      const double far = distance(cells[i], cells[j]);
      if (far >= nearest) continue;
      nearest = far;
      seconds[i] = seconds[j] * size_of_cell(cells[i]) / size_of_cell(cells[j]);
    }
    if (std::isnan(seconds[i]))
      throw Error(fmt::format("calibrate: no time to measure {}; run it on a quieter or faster machine",
                              cells[i].key));
  }
  return unseen.size();
}

}  // namespace plumbline::calibration
