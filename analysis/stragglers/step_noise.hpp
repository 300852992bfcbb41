// Step time when ranks differ: jitter, slow GPUs and links, hiccups of hosts, over all replicas.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "analysis/simulate/costs.hpp"
#include "core/base/units.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

/// Actions whose times vary together.
enum class NoiseKind { forward, backward, weight };
inline constexpr std::size_t kNoiseKinds = 3;
using ByNoiseKind = std::array<double, kNoiseKinds>;

/// Sources of differences between ranks.
struct NoiseModel {
  double jitter = 0;  // deviation of the logarithm of a GPU's computing time, drawn for every step
  ByNoiseKind
      kind_jitter{};  // the same for its forwards, backwards (B and I) and W, each drawn by itself, on top of
                      // it
  double slow_share = 0;        // of all GPUs, the same ones in every step
  double slow_factor = 1;       // how much longer they take
  double slow_link_share = 0;   // of all GPUs' ports, the same ones in every step
  double slow_link_factor = 1;  // how much longer messages from them take
  double hiccup_share = 0;      // of all nodes in a step
  Seconds hiccup{};             // how long such a node is late with its first forward
  bool jitters() const { return jitter > 0 || kind_jitter != ByNoiseKind{}; }
  bool any() const { return jitters() || slow_share > 0 || slow_link_share > 0 || hiccup_share > 0; }
};

/// Replicas of one pipeline. Ranks of a stage that wait for each other in every layer (tensor × context) run
/// at the pace of their slowest.
struct NoiseJob {
  const RepeatedSchedule* step = nullptr;  // must outlive the call
  Costs costs;
  int ranks_per_stage = 1;
  int replicas = 1;
  int gpus_per_node = 8;
};

struct NoisePlan {
  int steps = 200;
  std::uint64_t seed = 1;
  /// Slow GPUs that are replaced by others, those that hold up most first.
  std::int64_t replaced = 0;
};

/// Delay caused by one kind of action of one rank.
struct NoiseBlame {
  int rank = 0;           // of the pipeline
  std::string_view what;  // "forward", "backward", "weight", "messages", "late"
  Seconds cost;           // time that the pipeline would save if this were as on quiet ranks
};

struct NoisySteps {
  Seconds quiet;               // nothing is slow
  std::vector<double> steps;   // seconds, ascending
  std::int64_t slow_gpus = 0;  // that are left
  std::int64_t simulated = 0;  // pipelines; all others are identical to one, or cannot be the last
  /// Median step: the last replica, and the delays that its ranks cause, largest first.
  int last_replica = 0;
  std::vector<NoiseBlame> blame;
  Seconds mean() const;
  Seconds percentile(double part) const;
};

/// A step ends when the last replica does. Every pipeline has the costs of its slowest ranks and is simulated
/// whole. Exceptions are those that are identical to another and those that cannot be the last: a pipeline
/// whose ranks are at most f times as slow takes at most f times the quiet step. Approximations: collectives
/// inside actions are lengthened with them, and the reduction of gradients begins when all are done. Its
/// remaining time is multiplied by the factor of the slowest port in its group, of any replica.
NoisySteps simulate_noise(const NoiseJob& job, const NoiseModel& noise, const NoisePlan& plan);

}  // namespace plumbline
