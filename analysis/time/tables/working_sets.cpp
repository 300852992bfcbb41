#include "analysis/time/tables/working_sets.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {
namespace {

/// Levels used if nothing is measured between the tables.
CacheLevels levels_of(const std::vector<OperatorTimes>& tables) {
  CacheLevels levels;
  for (const OperatorTimes& times : tables) {
    levels.bytes.push_back(std::max(1.0, static_cast<double>(times.working_set.value)));
    levels.level.push_back(static_cast<double>(levels.level.size()));
  }
  return levels;
}

}  // namespace

std::vector<double> table_shares(const std::vector<OperatorTimes>& tables, const CacheLevels& levels,
                                 const Reuse& reuse) {
  constexpr int kDistances = 16;  // that stand for evenly spread ones
  std::vector<double> shares(tables.size());
  if (tables.empty()) return shares;
  const CacheLevels& known = levels.empty() ? levels_of(tables) : levels;
  const auto add = [&](double distance, double share) {
    const double level = std::min(known.at(distance), static_cast<double>(tables.size() - 1));
    const auto below = static_cast<std::size_t>(level);
    const double above = level - static_cast<double>(below);
    shares[below] += share * (1 - above);
    if (above > 0) shares[below + 1] += share * above;
  };
  if (reuse.share_apart > 0) add(static_cast<double>(reuse.apart.value), reuse.share_apart);
  if (reuse.share_apart >= 1) return shares;
  for (int i = 0; i < kDistances; ++i) {
    add(static_cast<double>(reuse.evenly_within.value) * (i + 0.5) / kDistances,
        (1 - reuse.share_apart) / kDistances);
  }
  return shares;
}

}  // namespace plumbline
