// Shapes of one operator or collective. Sizes in elements unless stated otherwise.
#pragma once

#include <string>

namespace plumbline::silicon {

/// C (m x n) = A (m x k) . B (k x n), result in bf16. fp8, fp8_block and nvfp4 include quantizing A.
struct ProductShape {
  std::string type;  // bf16, fp8, fp8_block, nvfp4
  double m = 1, n = 1, k = 1;
};
/// Causal, forward. `window`: keys that a query sees; 0: no window.
struct AttentionShape {
  std::string type;  // bf16, fp8
  double batch = 1, sequence = 1, heads = 1, kv_heads = 1, head = 128, window = 0;
};
/// DeepSeek's attention, forward, causal: heads of 192 for keys and 128 for values, bf16.
struct LatentAttentionShape {
  double batch = 1, sequence = 1, heads = 1;
};
/// The experts of one rank: sorting, fc1 (gated), activation, fc2 and the weighted sum.
struct ExpertsShape {
  std::string type;
  double tokens = 1, hidden = 1, ffn = 1, choices = 1, experts = 1, tp = 1, ep = 1;
  double skew = 0;  // exponent of the power law by which experts are chosen; 0: even
};
struct CollectiveShape {
  std::string operation;        // all_reduce, all_gather, reduce_scatter, alltoall
  double ranks = 2, bytes = 1;  // of the whole buffer
};
/// A matrix that is quantized to 8 bit.
struct CastShape {
  std::string part;  // amax (the largest value), cast
  double m = 1, k = 1;
};
/// Dispatch of tokens to the ranks of their experts, and combine, with DeepEP; `tokens` per rank.
struct ExchangeShape {
  std::string part;   // dispatch (fp8), combine (bf16)
  std::string table;  // version, or empty: the newest that has the shape
  double nodes = 1, ranks = 8, hidden = 1, tokens = 1, choices = 1, experts = 1, processors = 20;
};

}  // namespace plumbline::silicon
