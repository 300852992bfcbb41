// Conversations packed into the sequence of a micro-batch (packed_sequence).
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor/matrix.hpp"

namespace plumbline::training {

/// Tokens of each, in order; rows behind the last one are padding.
using Conversations = std::vector<std::int64_t>;

/// Calls use(first row, rows) for every conversation. Returns the rows before the padding.
template <class Use>
std::int64_t each_conversation(const Conversations& lengths, Use&& use) {
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    use(first, length);
    first += length;
  }
  return first;
}

/// The rows of x behind `first`.
inline Matrix rows_from(const Matrix& x, std::int64_t first) {
  return x.row_range(first, x.rows - first);
}

}  // namespace plumbline::training
