// Attention work of packed sequences.
#pragma once

namespace plumbline {

/// Pairs of tokens of a layer's attention, as shares of those of whole causal sequences.
struct AttentionReport {
  double mean = 1;     // over all ranks
  double slowest = 1;  // of the data-parallel rank with the most in each step
};

}  // namespace plumbline
