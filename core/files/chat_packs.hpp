// Order of conversations in fine-tuning: which of them make a sequence, and which sequences a rank gets in a
// step. Predictions and runs read the same order.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/run_config.hpp"
#include "core/files/chat_data.hpp"
#include "core/files/context_packs.hpp"

namespace plumbline {

/// Sequences of an epoch. The next one is the same.
struct ChatOrder {
  /// Conversations of every sequence, one after another.
  std::vector<std::vector<std::int64_t>> sequences;
  /// With dynamic_context_parallel: the same by groups of ranks; else empty.
  std::vector<GroupedSequence> groups;
  /// Sequence of every sample: sample s·B + (m·D + d)·b + i is number i of micro-batch m of replica d in
  /// step s.
  std::vector<std::int64_t> samples;

  const std::vector<std::int64_t>& sample(std::int64_t index) const { return sequences[sequence_of(index)]; }
  const GroupedSequence& groups_of(std::int64_t index) const { return groups[sequence_of(index)]; }

 private:
  std::size_t sequence_of(std::int64_t index) const {
    return static_cast<std::size_t>(samples[static_cast<std::size_t>(index) % samples.size()]);
  }
};

/// Without packed_sequence a conversation is a sequence, and samples are in the file's order. With it:
///
/// 1. First-fit-decreasing (Johnson 1973) makes packs of at most seq_length tokens. Among conversations of
///    equal length the seed decides. With dynamic_context_parallel packs are grouped_sequences().
/// 2. The seed shuffles the packs. Step s has packs s·B to (s+1)·B - 1; the last step is filled up with the
///    first packs.
/// 3. Within a step packs go to replicas by attention work, length² summed over conversations (of the context
///    group with the most per rank): the most work first, each to the replica with the least so far that has
///    room.
ChatOrder order_of(const ChatData& chats, const RunConfig& config);

}  // namespace plumbline
