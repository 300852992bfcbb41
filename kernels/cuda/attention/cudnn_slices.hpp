// Attention shapes that cuDNN takes, their slices and scratch. Arithmetic on shapes, the same in every build
// and on every device, so that a prediction of memory needs neither.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/operators.hpp"

namespace plumbline::cuda {

/// Part of one cuDNN call: key/value heads of some sequences, each with this many of the query heads that
/// share it. All divide the whole, so that all calls of a shape are alike.
struct AttentionSlice {
  std::int64_t sequences = 0;
  std::int64_t kv_heads = 0;
  std::int64_t group = 0;
  bool empty() const { return sequences == 0; }
  std::int64_t heads() const { return sequences * kv_heads * group; }
  friend bool operator==(const AttentionSlice&, const AttentionSlice&) = default;
};

/// cuDNN takes bf16 and fp16, head sizes that are multiples of 8 up to 256, whole sequences of more than one
/// token (not a part of the queries or keys), and no dropout (its numbers are not ours). Values are as wide
/// as keys, or narrower where each query head has its own (latent attention). The forward always takes
/// everything at once. A slice of the backward is the largest whose memory, linear in the sequence, is up to
/// 256 MiB, at least one key/value head of one sequence.
///
/// A deterministic backward, which gives the same bits every time, keeps the gradient of the scores, `dP`, 2
/// bytes for each of a slice's scores: quadratic in the sequence. Its slice is the largest with dP up to 256
/// MiB, at least one key/value head of one sequence. If even that has more than 1 GiB, the slice is some of
/// the head's query heads: as many as 256 MiB allow, at least one. Their gradients of the key/value head are
/// added up afterwards (key_gradients.hpp). If even one query head has more than 1 GiB the slice is empty,
/// and the own kernels do the backward.
AttentionSlice backward_slice(const AttentionShape& shape, DType type, bool deterministic);

/// Queries and keys are not both those of whole sequences.
bool is_part_of_sequence(const AttentionShape& shape);
/// The rule above for the forward.
bool cudnn_takes(const AttentionShape& shape, DType type);
/// Reason why a shape is not taken.
std::string why_not_cudnn(const AttentionShape& shape, DType type);

/// Elements of the 16-bit type in which a slice of the backward leaves its gradients of one key/value head,
/// keys' then values', for all slices of that head: 0 where it has the whole group.
std::int64_t parts_of_key_gradients(const AttentionShape& shape, const AttentionSlice& slice);

/// fp32 elements of scratch, whether the shape drops or not: the larger of batch·heads·seq, which the own
/// backward needs, and a quarter of the bytes of a slice of H query heads in all, with d = head_dim and
/// ⌈x⌉n the smallest multiple of n not below x:
///
///     4·H·(seq + ⌈seq⌉8)·d + 4·H·seq + (heads > kv_heads: 4·H·seq·d) + 2048 bytes
///
/// These are gradients of queries, twice since compute capability 8.0 needs them so, Σ dout·out, and the
/// gradients of keys and values before query heads that share them are added up. A deterministic slice has
///
///     2·H·⌈seq⌉64·⌈seq⌉128 + 4·H·seq + (group > 1: 4·H·seq·d)
///       + 2·parts_of_key_gradients() + 2048 bytes
///
/// cuDNN 9.19's requirements on compute capabilities 8.0 and 9.0, the larger of both; cudnn_plans_test
/// compares.
std::int64_t attention_scratch_elements(const AttentionShape& shape, DType type, bool deterministic);

}  // namespace plumbline::cuda
