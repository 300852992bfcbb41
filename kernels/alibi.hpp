// The one definition of ALiBi's slopes, on the host and in kernels (Press et al. 2022, arXiv:2108.12409). For
// head counts that are no powers of two it follows its authors' code.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/operators.hpp"

namespace plumbline {

/// Slope of a head of a model with `heads` query heads: 2^(-8(i+1)/p) for the first p, the largest power of
/// two up to `heads`. The rest take every other slope of a model with 2p heads, 2^(-8/(2p)), 2^(-24/(2p)),
/// …
inline double alibi_slope(std::int64_t head, std::int64_t heads) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const auto p = static_cast<double>(power);
  if (head < power) return std::exp2(-8 * static_cast<double>(head + 1) / p);
  return std::exp2(-4 * static_cast<double>(2 * (head - power) + 1) / p);
}

/// Amount subtracted from a score of query head `head` of `shape` per key of distance; 0 without ALiBi.
inline double slope_of(const AttentionShape& shape, std::int64_t head) {
  if (shape.alibi.heads == 0) return 0;
  return shape.alibi.factor * alibi_slope(shape.first_head + head, shape.alibi.heads);
}

}  // namespace plumbline
