#include "bench/cuda/device_readings.hpp"

#include <algorithm>

namespace plumbline {
namespace {

/// Negative differences come from other processes that returned memory.
Bytes at_least_0(Bytes bytes) {
  return std::max(bytes, Bytes{});
}

struct DeviceSum {
  int ranks = 0;
  Bytes alone_used, connected_used, last_used;
  Bytes alone_pools, connected_pools, last_pools;
};

DeviceSum sum_of(const std::vector<DeviceReadings>& ranks, const DeviceReadings& of) {
  DeviceSum sum;
  for (const DeviceReadings& other : ranks) {
    if (other.host != of.host || other.number != of.number) continue;
    ++sum.ranks;
    sum.alone_pools += other.alone.pools();
    sum.connected_pools += other.connected.pools();
    sum.last_pools += other.last.pools();
    // Read at the same moment, up to the time between two processes' calls.
    sum.alone_used = std::max(sum.alone_used, other.alone.used);
    sum.connected_used = std::max(sum.connected_used, other.connected.used);
    sum.last_used = std::max(sum.last_used, other.last.used);
  }
  return sum;
}

}  // namespace

std::vector<DeviceMemoryRow> account_device(const std::vector<DeviceReadings>& ranks,
                                            const std::vector<Bytes>& allocated) {
  std::vector<DeviceMemoryRow> rows;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const DeviceReadings& mine = ranks[i];
    const DeviceSum all = sum_of(ranks, mine);
    DeviceMemoryRow row;
    row.rank = static_cast<int>(i);
    row.allocated = allocated.at(i);
    row.reserved = mine.most_tensor_pool;
    if (mine.before.value >= 0) row.context = at_least_0(mine.context.used - mine.before);
    const Bytes handle =
        (mine.operators.used - mine.operators.pools()) - (mine.context.used - mine.context.pools());
    row.libraries = at_least_0(handle) + mine.most_library_pool;
    row.nccl = at_least_0((all.connected_used - all.connected_pools) - (all.alone_used - all.alone_pools)) /
               all.ranks;
    row.other =
        at_least_0((all.last_used - all.last_pools) - (all.connected_used - all.connected_pools)) / all.ranks;
    row.total = row.sum();
    row.device_used = all.last_used;
    row.ranks_on_device = all.ranks;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace plumbline
