#include "bench/run/recovery/replica_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/predict/predict.hpp"
#include "bench/evaluate/budget_check.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

/// Reason why the run cannot continue with `replicas` of its replicas, or empty.
std::string why_not(const RunConfig& config, int replicas) {
  const RunConfig fewer = with_replicas(config, replicas);
  if (const auto reason = why_invalid(fewer)) return *reason;
  if (const auto reason = why_unsupported(fewer)) return *reason;
  try {
    schedule_for(fewer);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

Seconds predicted_step(const RunConfig& config, const HardwareProfile& hardware) {
  return predict(config, step_for(config), hardware).time.step;
}

}  // namespace

int ReplicaSizes::without(int lost) const {
  if (lost <= 0) return all();
  int replicas = std::max(0, all() - lost);
  while (replicas > 0 && slower[static_cast<std::size_t>(replicas) - 1] <= 0) --replicas;
  return replicas;
}

RunConfig with_replicas(const RunConfig& config, int replicas) {
  RunConfig fewer = config;
  fewer.parallel.world_size = static_cast<int>(config.parallel.model_ranks() * replicas);
  return fewer;
}

void check_elastic(const RunConfig& config) {
  const int replicas = config.parallel.data();
  if (replicas < 2) {
    throw InputError(
        "--elastic: found data_parallel_size 1, expected 2 or more: no other replica goes on while one is "
        "missing");
  }
  if (const std::string reason = why_not(config, replicas - 1); !reason.empty()) {
    throw InputError(
        fmt::format("--elastic: without one of {} replicas the run could not go on: {}", replicas, reason));
  }
  const RunConfig fewer = with_replicas(config, replicas - 1);
  check_budget(fewer, schedule_for(fewer));
}

ReplicaSizes elastic_sizes(const RunConfig& config, const HardwareProfile& hardware) {
  const Seconds whole = predicted_step(config, hardware);
  ReplicaSizes sizes;
  for (int replicas = 1; replicas < config.parallel.data(); ++replicas) {
    const bool possible = why_not(config, replicas).empty();
    sizes.slower.push_back(possible ? predicted_step(with_replicas(config, replicas), hardware) / whole : 0);
  }
  return sizes;
}

}  // namespace plumbline
