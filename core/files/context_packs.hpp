// Conversations on context-parallel ranks with dynamic_context_parallel: a long one is split over all of
// them, shorter ones over fewer, next to each other.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace plumbline {

/// Neighbouring ranks of a sequence that split the same conversations.
struct ContextGroup {
  int ranks = 1;
  std::vector<std::int64_t> conversations;
};

/// Groups of a sequence, the larger ones first: one of n ranks begins at a multiple of n. They cover all
/// ranks.
using GroupedSequence = std::vector<ContextGroup>;

/// Ranks that split a conversation if each has `rows` rows: the smallest power of two that suffices
/// (Megatron-Core's 2^ceil(log2(length / max_seqlen_per_dp_cp_rank))).
int ranks_of(std::int64_t length, std::int64_t rows);

/// Rows of a conversation on each of `ranks` ranks: two chunks of equal length, with padding at the end of
/// the conversation; on one rank its tokens.
std::int64_t rows_on_each(std::int64_t length, int ranks);

/// Sequences of `ranks` ranks, a power of two, of `rows` rows each, an even number. Conversations of as many
/// ranks (ranks_of()) are packed by first-fit-decreasing into groups. The groups, by ranks and then by work
/// per rank, the most first, fill sequences one after another, so that groups of a sequence have similar
/// work.
///
/// `conversations`: by length, the longest first. `length`: of one; at most ranks x rows.
std::vector<GroupedSequence> grouped_sequences(const std::vector<std::int64_t>& conversations,
                                               const std::function<std::int64_t(std::int64_t)>& length,
                                               int ranks, std::int64_t rows);

}  // namespace plumbline
