#include "bench/record/device_memory_report.hpp"

#include <algorithm>

namespace plumbline {

Bytes DeviceMemoryRow::sum() const {
  return reserved.value_or(allocated) + context.value_or(Bytes{}) + libraries + nccl + other;
}

const DeviceMemoryRow* DeviceMemoryReport::fullest() const {
  const auto most = std::max_element(ranks.begin(), ranks.end(),
                                     [](const auto& a, const auto& b) { return a.needed() < b.needed(); });
  return most == ranks.end() ? nullptr : &*most;
}

const DeviceMemoryRow* DeviceMemoryReport::row_of(int rank) const {
  const auto row = std::find_if(ranks.begin(), ranks.end(), [rank](const DeviceMemoryRow& each) {
    return each.rank <= rank && rank < each.rank + each.ranks_alike;
  });
  return row == ranks.end() ? nullptr : &*row;
}

}  // namespace plumbline
