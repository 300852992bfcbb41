#include "analysis/reinforcement/packed_responses.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "analysis/predict/packed_sequences.hpp"

namespace plumbline {
namespace {

/// Lengths of every pack.
std::vector<std::vector<std::int64_t>> packs_of(std::vector<std::int64_t> lengths, std::int64_t room) {
  std::sort(lengths.begin(), lengths.end(), std::greater<>());
  std::vector<std::vector<std::int64_t>> packs;
  std::multimap<std::int64_t, std::size_t> left;  // free tokens of a pack
  for (const std::int64_t length : lengths) {
    auto into = left.lower_bound(length);
    if (into == left.end()) {
      into = left.emplace(room, packs.size());
      packs.emplace_back();
    }
    const auto [free, pack] = *into;
    left.erase(into);
    packs[pack].push_back(length);
    left.emplace(free - length, pack);
  }
  return packs;
}

}  // namespace

RunConfig packed_update(const RunConfig& update, std::span<const std::int64_t> responses,
                        std::int64_t prompt) {
  std::vector<std::int64_t> lengths(responses.begin(), responses.end());
  for (std::int64_t& length : lengths) length = std::min(length + prompt, update.batch.seq_length);
  PackedSequences packed;
  packed.seq_length = update.batch.seq_length;
  for (const std::vector<std::int64_t>& pack : packs_of(std::move(lengths), packed.seq_length)) {
    packed.first_of.push_back(packed.lengths.size());
    for (const std::int64_t length : pack) {
      packed.lengths.push_back(length);
      packed.tokens += length;
      packed.longest = std::max(packed.longest, length);
    }
  }
  RunConfig made = update;
  const std::int64_t together = made.batch.micro_batch_size * made.parallel.data();
  const double share =
      static_cast<double>(update.batch.global_batch_size) / static_cast<double>(responses.size());
  const auto packs = static_cast<std::int64_t>(static_cast<double>(packed.first_of.size()) * share);
  made.batch.global_batch_size = std::max<std::int64_t>(1, (packs + together - 1) / together) * together;
  made.batch.packed = packed_work(packed, made).attention;
  return made;
}

}  // namespace plumbline
