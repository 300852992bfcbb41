#include "analysis/reinforcement/rollout_time.hpp"

#include <queue>
#include <utility>
#include <vector>

namespace plumbline {

ReplicaRollout replica_rollout(std::span<const std::int64_t> lengths, std::int64_t prompt,
                               std::int64_t at_once, const RolloutPrices& prices) {
  using Live = std::pair<std::int64_t, std::int64_t>;  // step at which it ends, step at which it began
  std::priority_queue<Live, std::vector<Live>, std::greater<>> live;
  ReplicaRollout made;
  double begun = 0;  // sum of the steps at which live sequences began
  double sequence_steps = 0;
  std::size_t next = 0;
  std::int64_t now = 0;
  while (next < lengths.size() || !live.empty()) {
    while (next < lengths.size() && static_cast<std::int64_t>(live.size()) < at_once) {
      live.emplace(now + lengths[next++] - 1, now);
      begun += static_cast<double>(now);
      made.time += prices.prefill;
    }
    const std::int64_t end = live.top().first;
    const auto count = static_cast<double>(live.size());
    if (end > now) {
      const double middle = (static_cast<double>(now) + static_cast<double>(end)) / 2;
      const double length = static_cast<double>(prompt) + 1 + middle - begun / count;
      made.time +=
          prices.step(static_cast<std::int64_t>(live.size()), length) * static_cast<double>(end - now);
      sequence_steps += count * static_cast<double>(end - now);
    }
    now = end;
    while (!live.empty() && live.top().first == end) {
      begun -= static_cast<double>(live.top().second);
      live.pop();
    }
  }
  made.steps = now;
  made.mean_sequences = now > 0 ? sequence_steps / static_cast<double>(now) : 0;
  return made;
}

}  // namespace plumbline
