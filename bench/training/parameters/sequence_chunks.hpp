// Positions of a sequence on a rank (bench/training/context.md).
#pragma once

#include <cstdint>

#include "core/config/run_config.hpp"

namespace plumbline::training {

/// Context parallelism cuts sequences into 2·CP chunks. Rank r has chunks r and 2·CP-1-r, so that causal
/// attention is equal work on every rank, or without balance 2r and 2r+1. Without it a sequence is one chunk.
struct SequenceChunks {
  std::int64_t count;   // chunks of a sequence on the rank
  std::int64_t length;  // tokens of a chunk
  int ranks;            // CP
  int rank;             // r
  bool balanced;

  /// Those of a rank at the data coordinate `data`.
  SequenceChunks(const RunConfig& config, int data)
      : count(config.parallel.context > 1 ? 2 : 1),
        length(config.batch.seq_length / (count * config.parallel.context)),
        ranks(config.parallel.context),
        rank(data % ranks),
        balanced(config.parallel.cp.load_balance) {}

  /// Chunks of `members` neighbouring ranks together: their chunks are neighbours too.
  SequenceChunks of_group(int members) const {
    SequenceChunks group = *this;
    group.length *= members;
    group.ranks /= members;
    group.rank /= members;
    return group;
  }

  /// The rank's place among `members` neighbours, which split shorter sequences.
  SequenceChunks of_neighbours(int members) const {
    SequenceChunks own = *this;
    own.ranks = members;
    own.rank %= members;
    return own;
  }
  /// Chunks of a conversation of `rows` rows on each of `members` neighbours. Alone it is one.
  SequenceChunks of_conversation(std::int64_t rows, int members) const {
    SequenceChunks own = *this;
    own.count = members > 1 ? 2 : 1;
    own.length = rows / own.count;
    own.ranks = members;
    own.rank %= members;
    return own;
  }

  /// Tokens of a sequence on the rank.
  std::int64_t tokens() const { return count * length; }
  /// Position in the sequence where the rank's chunk `i` begins.
  std::int64_t first(std::int64_t i) const {
    if (!balanced) return length * (count * rank + i);
    return length * (i == 0 ? rank : 2 * ranks - 1 - rank);
  }
  /// Position of the sequence's token `j` on the rank.
  std::int64_t position(std::int64_t j) const { return first(j / length) + j % length; }
  /// Token of the rank at a position of its chunks: the inverse.
  std::int64_t token(std::int64_t position) const {
    std::int64_t chunk = count - 1;
    while (chunk > 0 && position < first(chunk)) --chunk;
    return chunk * length + position - first(chunk);
  }
};

}  // namespace plumbline::training
