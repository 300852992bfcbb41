#include "analysis/reliability/effective_time.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline {

double effective_share(const JobFailures& failures, const SavePlan& saves) {
  double recovered = 0;  // the chance that a recovery is not interrupted
  for (const FailureKind& kind : failures.kinds)
    recovered += kind.share * std::exp(-(kind.recovery / failures.between));
  const double kept = std::exp(-(saves.durable / failures.between)) /
                      std::expm1((saves.interval + saves.stall) / failures.between);
  return recovered * kept * (saves.interval / failures.between);
}

Seconds best_interval(const JobFailures& failures, const CheckpointPlan& checkpoint) {
  const SavePlan saves = saves_of(checkpoint, {});
  // y = 1 - exp(-(y + s/M)) between 0 and 1: the left side grows faster from the root on.
  const double stall = saves.stall / failures.between;
  double low = 0;
  double high = 1;
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    (middle < -std::expm1(-(middle + stall)) ? low : high) = middle;
  }
  // One save at a time.
  return std::max(high * failures.between, saves.durable - saves.stall);
}

Seconds young_interval(Seconds save, Seconds between) {
  return {std::sqrt(2 * save.value * between.value)};
}

Seconds daly_interval(Seconds save, Seconds between) {
  return save.value < between.value / 2 ? young_interval(save, between) - save : between;
}

Seconds daly_higher_order_interval(Seconds save, Seconds between) {
  if (save.value >= 2 * between.value) return between;
  const double half = save / between / 2;
  return young_interval(save, between) * (1 + std::sqrt(half) / 3 + half / 9) - save;
}

double young_overhead(Seconds save, Seconds between) {
  return std::sqrt(2 * (save / between));
}

double first_order_share(const JobFailures& failures, const SavePlan& saves) {
  const double lost = (failures.mean_recovery() + saves.interval / 2 + saves.durable) / failures.between;
  return (1 - lost) / (1 + saves.stall / saves.interval);
}

bool makes_progress(const JobFailures& failures) {
  return failures.mean_recovery() < failures.between;
}

double mean_nodes_in_repair(const JobFailures& failures, Seconds repair) {
  return failures.node_share() * (repair / failures.between);
}

int poisson_quantile(double mean, double chance) {
  // In logarithms: exp(-mean) alone may be too small for a number.
  double log_term = -mean;
  double below = std::exp(log_term);
  int count = 0;
  while (1 - below > chance && count < 10'000'000) {
    ++count;
    log_term += std::log(mean / count);
    below += std::exp(log_term);
  }
  return count;
}

}  // namespace plumbline
