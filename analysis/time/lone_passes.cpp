#include "analysis/time/lone_passes.hpp"

#include <algorithm>

namespace plumbline {

double lone_passes(const Schedule& schedule, std::int64_t microbatches) {
  const double ranks = schedule.ranks;
  const double chunks = std::max(1.0, schedule.stages / ranks);
  const double behind = ranks - 1;
  const double first = 1 + (chunks > 1 ? 2 * behind + (chunks - 1) * ranks : behind);
  return std::min(first / (ranks * chunks), static_cast<double>(microbatches));
}

}  // namespace plumbline
