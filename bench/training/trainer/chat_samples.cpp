#include "bench/training/trainer/chat_samples.hpp"

#include <algorithm>

#include "core/config/common_vocabulary.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::training {

ChatSamples::ChatSamples(const RunConfig& config)
    : seq_length_(config.batch.seq_length),
      chats_(config.files.data, common_vocab(config), seq_length_),
      order_(order_of(chats_, config)) {}

std::vector<std::int32_t> ChatSamples::ids(std::int64_t sample) const {
  std::vector<std::int32_t> ids;
  for (const std::int64_t conversation : order_.sample(sample)) {
    const auto own = chats_.ids(conversation);
    ids.insert(ids.end(), own.begin(), own.end());
  }
  ids.resize(static_cast<std::size_t>(seq_length_) + 1, 0);
  return ids;
}

std::vector<std::uint8_t> ChatSamples::counts(std::int64_t sample) const {
  std::vector<std::uint8_t> counts;
  for (const std::int64_t conversation : order_.sample(sample)) {
    for (std::int64_t j = 1; j < chats_.length(conversation); ++j)
      counts.push_back(chats_.answered(conversation, j) ? 1 : 0);
    counts.push_back(0);  // nothing follows the last token
  }
  counts.resize(static_cast<std::size_t>(seq_length_), 0);
  return counts;
}

std::int64_t ChatSamples::counted(std::int64_t sample, std::int64_t first) const {
  const std::vector<std::uint8_t> all = counts(sample);
  return std::count(all.begin() + std::min(first, seq_length_), all.end(), std::uint8_t{1});
}

const ContextGroup& ChatSamples::group_of(std::int64_t sample, int context_rank) const {
  const GroupedSequence& groups = order_.groups_of(sample);
  std::size_t at = 0;
  for (int end = groups[at].ranks; context_rank >= end; end += groups[at].ranks) ++at;
  return groups[at];
}

Conversations ChatSamples::conversations(std::int64_t sample, int context_rank) const {
  Conversations found;
  if (order_.groups.empty()) {
    for (const std::int64_t conversation : order_.sample(sample))
      found.lengths.push_back(chats_.length(conversation));
    return found;
  }
  const ContextGroup& group = group_of(sample, context_rank);
  found.ranks = group.ranks;
  for (const std::int64_t conversation : group.conversations)
    found.lengths.push_back(rows_on_each(chats_.length(conversation), group.ranks));
  return found;
}

ChatSamples::Rows ChatSamples::rows(std::int64_t sample, const SequenceChunks& whole) const {
  const ContextGroup& group = group_of(sample, whole.rank);
  Rows rows;
  for (const std::int64_t conversation : group.conversations) {
    const std::int64_t length = chats_.length(conversation);
    const SequenceChunks own = whole.of_conversation(rows_on_each(length, group.ranks), group.ranks);
    for (std::int64_t j = 0; j < own.tokens(); ++j) {
      const std::int64_t position = own.position(j);
      const auto ids = chats_.ids(conversation);
      const auto at = static_cast<std::size_t>(position);
      const bool counts = position + 1 < length && chats_.answered(conversation, position + 1);
      rows.inputs.push_back(position < length ? ids[at] : 0);
      rows.targets.push_back(counts ? ids[at + 1] : kIgnoredTarget);
    }
  }
  rows.inputs.resize(static_cast<std::size_t>(whole.tokens()), 0);
  rows.targets.resize(rows.inputs.size(), kIgnoredTarget);
  return rows;
}

}  // namespace plumbline::training
