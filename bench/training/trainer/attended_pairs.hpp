// Attention work that a run with packed_sequence has executed.
#pragma once

#include "core/config/run_config.hpp"
#include "core/run/communicator.hpp"

namespace plumbline::training {

/// Sums the pairs of tokens of all steps, by data-parallel rank.
class AttendedPairs {
 public:
  AttendedPairs(const RunConfig& config, Communicator& control) : config_(config), control_(control) {}

  /// Adds a step: the pairs of this rank's backwards, over its layers. Collective.
  void add(double mine);
  /// Shares of whole causal sequences.
  PackedAttention shares() const;

 private:
  const RunConfig& config_;
  Communicator& control_;
  double all_ = 0;      // of all ranks, in one layer
  double slowest_ = 0;  // of the slowest rank of every step
  int steps_ = 0;
};

}  // namespace plumbline::training
