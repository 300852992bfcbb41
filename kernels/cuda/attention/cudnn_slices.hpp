// Which attention cuDNN takes, in pieces of what size, and the scratch it works in: arithmetic on shapes, the
// same in every build and on every device, so that a prediction of memory needs neither.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/operators.hpp"

namespace plumbline::cuda {

/// What one call of cuDNN computes: key/value heads of some sequences with their query heads. Both divide the
/// whole, so that all calls of a shape are alike.
struct AttentionSlice {
  std::int64_t sequences = 0;
  std::int64_t kv_heads = 0;
  bool empty() const { return sequences == 0; }
  friend bool operator==(const AttentionSlice&, const AttentionSlice&) = default;
};

/// cuDNN takes bf16 and fp16, head sizes that are multiples of 8 up to 256, whole sequences of more than one token (not a
/// part of the queries or keys), values as wide as keys, no dropout (its numbers are not ours). Its backward gives the same bits every time only where it keeps the
/// gradient of the scores, `dP`, 2 bytes for each of a slice's scores: quadratic in the sequence. A slice is
/// therefore the largest with dP up to 256 MiB, at least one key/value head of one sequence; where even that
/// has more than 1 GiB the slice is empty, and the own kernels do the backward. The forward needs no dP and
/// always takes everything at once.
AttentionSlice backward_slice(const AttentionShape& shape, DType type);

/// Queries and keys are not both those of whole sequences.
bool is_part_of_sequence(const AttentionShape& shape);
/// The rule above for the forward.
bool cudnn_takes(const AttentionShape& shape, DType type);
/// What about a shape that is not taken is against the rule; backward: of backward_slice().
std::string why_not_cudnn(const AttentionShape& shape, DType type, bool backward);

/// fp32 elements of scratch, whether the shape drops or not: the larger of batch·heads·seq, what the own
/// backward needs, and a quarter of
///
///     dP + 4·H·seq + (heads > kv_heads: 4·H·seq·d) + 2048 bytes,    dP = 2·H·⌈seq⌉64·⌈seq⌉128
///
/// with H query heads in all sequences of a slice, d = head_dim, ⌈x⌉n = x rounded up to a multiple of n:
/// score gradients, Σ dout·out, and the gradients of keys and values before query heads that share them are
/// added up. What cuDNN 9.19 asks for on compute capabilities 8.0 and 9.0; cudnn_plans_test compares.
std::int64_t attention_scratch_elements(const AttentionShape& shape, DType type);

}  // namespace plumbline::cuda
