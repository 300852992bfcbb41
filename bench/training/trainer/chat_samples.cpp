#include "bench/training/trainer/chat_samples.hpp"

#include <algorithm>

#include "core/config/common_vocabulary.hpp"

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

std::vector<std::int64_t> ChatSamples::lengths(std::int64_t sample) const {
  std::vector<std::int64_t> lengths;
  for (const std::int64_t conversation : order_.sample(sample))
    lengths.push_back(chats_.length(conversation));
  return lengths;
}

}  // namespace plumbline::training
