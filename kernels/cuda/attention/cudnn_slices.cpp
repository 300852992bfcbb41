#include "kernels/cuda/attention/cudnn_slices.hpp"

#include <algorithm>

#include "core/base/units.hpp"

namespace plumbline::cuda {
namespace {

constexpr Bytes kComfortable = kMiB * 256;
constexpr Bytes kMost = kMiB * 1024;

std::int64_t round_up(std::int64_t x, std::int64_t multiple) {
  return (x + multiple - 1) / multiple * multiple;
}

std::int64_t largest_divisor(std::int64_t whole, std::int64_t most) {
  std::int64_t part = std::clamp<std::int64_t>(most, 1, whole);
  while (whole % part != 0) --part;
  return part;
}

/// Bytes of dP of one query head of one sequence.
std::int64_t score_gradient_bytes(const AttentionShape& s) {
  return 2 * round_up(s.seq, 64) * round_up(s.seq, 128);
}

std::int64_t group_of(const AttentionShape& s) {
  return s.heads / s.kv_heads;
}

/// Bytes of a slice of the non-deterministic backward for `heads` query heads.
std::int64_t linear_bytes(const AttentionShape& s, std::int64_t heads) {
  const std::int64_t of_keys = group_of(s) > 1 ? s.seq * s.head_dim : 0;
  return 4 * heads * ((s.seq + round_up(s.seq, 8)) * s.head_dim + s.seq + of_keys);
}

/// Key/value heads of whole groups, each of which takes `bytes` bytes.
AttentionSlice of_whole_groups(const AttentionShape& s, std::int64_t bytes) {
  const std::int64_t kv_heads = largest_divisor(s.kv_heads, kComfortable.value / bytes);
  if (kv_heads < s.kv_heads) return {1, kv_heads, group_of(s)};
  return {largest_divisor(s.batch, kComfortable.value / (bytes * kv_heads)), kv_heads, group_of(s)};
}

}  // namespace

bool is_part_of_sequence(const AttentionShape& s) {
  return s.past != 0 || s.key_start != 0 || s.key_count != 0;
}

std::string why_not_cudnn(const AttentionShape& s, DType type) {
  if (type != DType::bf16 && type != DType::fp16) return "cuDNN takes bf16 and fp16 only";
  if (s.dropout.probability != 0)
    return "probabilities drop, and cuDNN would drop others than every other backend";
  if (s.alibi.heads > 0) return "scores have linear biases";
  if (s.prefix > 0) return "a prefix's tokens see each other";
  if (s.values() != s.head_dim && (s.heads != s.kv_heads || s.values() > s.head_dim || s.values() % 8 != 0))
    return "cuDNN takes narrower values, multiples of 8, where each query head has its own";
  if (is_part_of_sequence(s)) return "queries and keys are parts of a sequence";
  if (s.head_dim % 8 != 0 || s.head_dim > 256)
    return "cuDNN takes head sizes that are multiples of 8 up to 256";
  if (s.batch <= 0 || s.seq <= 1) return "cuDNN takes sequences of two tokens or more";
  return "";
}

bool cudnn_takes(const AttentionShape& s, DType type) {
  return why_not_cudnn(s, type).empty();
}

AttentionSlice backward_slice(const AttentionShape& s, DType type, bool deterministic) {
  if (!cudnn_takes(s, type)) return {};
  if (!deterministic) return of_whole_groups(s, linear_bytes(s, group_of(s)));
  const std::int64_t of_head = score_gradient_bytes(s);
  if (group_of(s) * of_head <= kMost.value) return of_whole_groups(s, group_of(s) * of_head);
  if (of_head > kMost.value) return {};
  return {1, 1, largest_divisor(group_of(s), kComfortable.value / of_head)};
}

std::int64_t parts_of_key_gradients(const AttentionShape& s, const AttentionSlice& slice) {
  const std::int64_t slices = group_of(s) / slice.group;
  return slices > 1 ? 2 * slices * s.seq * s.head_dim : 0;
}

std::int64_t attention_scratch_elements(const AttentionShape& shape, DType type, bool deterministic) {
  const std::int64_t own = shape.batch * shape.heads * shape.seq;
  AttentionShape s = shape;
  s.dropout = {};
  s.alibi = {};
  s.prefix = 0;
  const AttentionSlice slice = backward_slice(s, type, deterministic);
  if (slice.empty()) return cudnn_takes(s, type) ? std::max<std::int64_t>(own, 512) : own;
  const std::int64_t heads = slice.heads();
  if (!deterministic) return std::max(own, (linear_bytes(s, heads) + 2048) / 4);
  const std::int64_t of_keys = slice.group > 1 ? 4 * heads * s.seq * s.head_dim : 0;
  const std::int64_t bytes = heads * score_gradient_bytes(s) + 4 * heads * s.seq + of_keys +
                             2 * parts_of_key_gradients(s, slice) + 2048;
  return std::max(own, bytes / 4);
}

}  // namespace plumbline::cuda
