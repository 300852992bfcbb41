// Places of a query head's keys and values in unfused attention, for every backend: those of the first head
// of a group are its key/value head's own, the others have copies (UnfusedAttention::repeated).
#pragma once

#include "kernels/operators.hpp"

namespace plumbline {

/// Keys of the `member`-th query head of key/value head `kv_head`: (T, head_dim).
inline Matrix keys_of_head(const AttentionShape& s, const Matrix& k, const UnfusedAttention& kept,
                           std::int64_t kv_head, std::int64_t member) {
  if (member == 0) return k.columns(kv_head * s.head_dim, s.head_dim);
  const std::int64_t copies = s.heads / s.kv_heads - 1;
  return kept.repeated.columns((kv_head * copies + member - 1) * s.head_dim, s.head_dim);
}

/// Its values: (T, values()).
inline Matrix values_of_head(const AttentionShape& s, const Matrix& v, const UnfusedAttention& kept,
                             std::int64_t kv_head, std::int64_t member) {
  if (member == 0) return v.columns(kv_head * s.values(), s.values());
  const std::int64_t copies = s.heads / s.kv_heads - 1;
  const std::int64_t first = (s.heads - s.kv_heads) * s.head_dim;
  return kept.repeated.columns(first + (kv_head * copies + member - 1) * s.values(), s.values());
}

}  // namespace plumbline
