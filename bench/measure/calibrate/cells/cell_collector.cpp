#include "bench/measure/calibrate/cells/cell_collector.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline::calibration {
namespace {

constexpr int kSmallestTensor = 6;  // power of two: a smaller call is all overhead
constexpr int kFewElements = 9;     // this few take as long from the shared cache as from memory

}  // namespace

void CellCollector::add_to(Table table, const std::string& key, std::int64_t cols, double rotating,
                           const Make& make, int largest) {
  for (int power = kSmallestTensor; power <= largest; power += 3) {
    const std::int64_t elements = std::int64_t{1} << power;
    const std::int64_t width = std::min(cols, elements);
    const auto bytes = static_cast<std::int64_t>(rotating * static_cast<double>(elements));
    for (std::size_t set = 0; set < kWorkingSets.size(); ++set) {
      if (set == 0 && power >= 21) continue;  // never in the private cache
      if (set == 2 && power <= kFewElements) continue;
      // Logits of this size are never in the shared cache: as from memory.
      if (set == 1 && power > kLargestTensor) continue;
      Cell cell;
      cell.table = table;
      cell.key = key;
      cell.at = {static_cast<double>(elements), static_cast<double>(table == Table::by_row ? cols : 1), 1};
      cell.working_set = set;
      cell.storage = storage_;
      cell.prepare = [=](Operators& op, Pools& pools) {
        pools.begin(kWorkingSets[set], {bytes});
        return make(op, pools, elements / width, width);
      };
      cells_.push_back(std::move(cell));
    }
  }
}

GridAxes by_row_axes(const std::string& key) {
  GridAxes axes{{}, {16, 128, kHidden}, {1}};
  if (key.starts_with("rope.")) axes.y = {2, 16, 32, 64};  // a vector is 16 numbers, half a head
  for (int power = kSmallestTensor; power <= kLargestTensor; power += 3) axes.x.push_back(std::exp2(power));
  return axes;
}

}  // namespace plumbline::calibration
