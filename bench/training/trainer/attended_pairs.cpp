#include "bench/training/trainer/attended_pairs.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "bench/training/trainer/host_values.hpp"

namespace plumbline::training {

void AttendedPairs::add(double mine) {
  const Layout& layout = control_.layout();
  const std::vector<double> pairs = from_every_rank(control_, mine);
  std::vector<double> by_replica(static_cast<std::size_t>(layout.data));
  for (int rank = 0; rank < layout.world(); ++rank) {
    const Coordinates at = layout.coordinates(rank);
    if (at.tensor == 0)
      by_replica[static_cast<std::size_t>(at.data)] += pairs[static_cast<std::size_t>(rank)];
  }
  const auto layers = static_cast<double>(config_.model.layers);
  all_ += std::accumulate(by_replica.begin(), by_replica.end(), 0.0) / layers;
  slowest_ += *std::max_element(by_replica.begin(), by_replica.end()) / layers;
  ++steps_;
}

PackedAttention AttendedPairs::shares() const {
  const auto length = static_cast<double>(config_.batch.seq_length);
  const double whole = static_cast<double>(steps_ * config_.batch.global_batch_size) * length * length / 2;
  if (steps_ == 0) return {};
  // With context ranks a rank has its own part of a sequence.
  const int parts = config_.parallel.copies();
  return {.mean = all_ / whole,
          .slowest = slowest_ * static_cast<double>(parts) / whole,
          .lengths = {},
          .rings = {}};
}

}  // namespace plumbline::training
