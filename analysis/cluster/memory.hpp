// Peak memory of every pipeline rank: states, activations in flight, logits and what is alive only for a
// moment.
#pragma once

#include <vector>

#include "analysis/cluster/step.hpp"

namespace plumbline::cluster {

struct RankBytes {
  double states = 0;       // parameters, gradients, optimizer
  double activations = 0;  // kept for the backward
  double logits = 0;       // output layer and its loss
  double transient = 0;    // gradients of activations, gathered parameters
  double total() const { return states + activations + logits + transient; }
};

/// Bytes one layer keeps for its backward, one micro-batch, one tensor rank: Korthikanti et al.
/// (arXiv:2205.05198) equations 1-6 for the GPT layer, less the masks without dropout; the same sum over
/// kept inputs for gated layers.
double layer_activation_bytes(const Software& software, const Job& job);
/// Bytes of the model's states on a rank that holds `parameters` (ZeRO, arXiv:1910.02054 §5).
double state_bytes(const Software& software, const Job& job, double parameters);

/// Most activations a rank holds at once, in layers × micro-batches. Between the two halves of a split
/// backward only what the weight gradients need is left, the fraction `held_after_input`.
std::vector<double> peak_layers(const Schedule& schedule, const Placement& placement,
                                double held_after_input);

/// Allocated bytes (tensors), not what the allocator reserves.
std::vector<RankBytes> rank_memory(const Software& software, const Job& job, const Placement& placement,
                                   const Schedule& schedule);
/// The fullest rank's total.
double peak_memory(const std::vector<RankBytes>& ranks);

}  // namespace plumbline::cluster
