// In-network reductions (SHARP): GPUs send their data up once, it is added where it meets, and the sum comes
// back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "analysis/topology/link_loads.hpp"

namespace plumbline {

/// Paths of sums to the root, found once for every set of leaf switches that groups have.
class SwitchReduction {
 public:
  /// `fabric` must outlive it.
  explicit SwitchReduction(const Fabric& fabric);
  /// Adds the load of a sum over `gpus`, of `bytes` on each, to ports and cables. Every leaf switch sends one
  /// sum up, in slices divided over its cables. A slice is reduced where those of all leaf switches meet, and
  /// returns the same way. False, with nothing added, where slices do not meet: switches that are not
  /// connected alike.
  bool add(const std::vector<std::int64_t>& gpus, double bytes, LinkLoads& loads);

 private:
  struct Climb {
    bool meets = false;
    std::vector<std::pair<std::size_t, double>> bundles;  // with the part of a sum that each carries
  };
  Climb climb(const std::vector<int>& leaves) const;

  const Fabric& fabric_;
  std::vector<std::vector<std::size_t>> up_;  // bundles by their lower switch
  std::vector<std::pair<std::vector<int>, Climb>> known_;
};

}  // namespace plumbline
