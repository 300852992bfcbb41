// Conversations packed into the sequence of a micro-batch (packed_sequence).
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "bench/training/parameters/sequence_chunks.hpp"
#include "core/tensor/matrix.hpp"

namespace plumbline::training {

struct Conversations {
  std::vector<std::int64_t>
      lengths;    // rows of each on this rank, in order; those behind the last are padding
  int ranks = 1;  // neighbours that split them (dynamic_context_parallel)

  /// Rows before the padding.
  std::int64_t rows() const { return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}); }
};

/// Calls use(first row, rows, first position) for every chunk of a conversation that this rank has: one, or
/// two of those that ranks split. `whole`: chunks of whole sequences on this rank.
template <class Use>
void each_chunk_of(const Conversations& conversations, const SequenceChunks& whole, Use&& use) {
  std::int64_t first = 0;
  for (const std::int64_t length : conversations.lengths) {
    const SequenceChunks own = whole.of_conversation(length, conversations.ranks);
    for (std::int64_t i = 0; i < own.count; ++i) use(first + i * own.length, own.length, own.first(i));
    first += length;
  }
}

/// The rows of x behind `first`.
inline Matrix rows_from(const Matrix& x, std::int64_t first) {
  return x.row_range(first, x.rows - first);
}

}  // namespace plumbline::training
