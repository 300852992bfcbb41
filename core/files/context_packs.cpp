#include "core/files/context_packs.hpp"

#include <algorithm>
#include <map>

#include "core/files/first_fit.hpp"

namespace plumbline {
namespace {

struct Pack {
  std::vector<std::int64_t> conversations;
  std::int64_t work = 0;  // rows² summed: as pairs of tokens per rank, within packs of as many ranks
};

std::vector<Pack> packs_of(const std::vector<std::int64_t>& conversations,
                           const std::function<std::int64_t(std::int64_t)>& length, int ranks,
                           std::int64_t rows) {
  FirstFit fit(std::ssize(conversations), rows);
  std::vector<Pack> packs;
  for (const std::int64_t conversation : conversations) {
    const std::int64_t share = rows_on_each(length(conversation), ranks);
    const std::size_t at = fit.place(share);
    if (at >= packs.size()) packs.resize(at + 1);
    packs[at].conversations.push_back(conversation);
    packs[at].work += share * share;
  }
  std::stable_sort(packs.begin(), packs.end(), [](const Pack& a, const Pack& b) { return a.work > b.work; });
  return packs;
}

}  // namespace

int ranks_of(std::int64_t length, std::int64_t rows) {
  int ranks = 1;
  while (ranks * rows < length) ranks *= 2;
  return ranks;
}

std::int64_t rows_on_each(std::int64_t length, int ranks) {
  const std::int64_t chunks = std::int64_t{2} * ranks;
  return ranks == 1 ? length : 2 * ((length + chunks - 1) / chunks);
}

std::vector<GroupedSequence> grouped_sequences(const std::vector<std::int64_t>& conversations,
                                               const std::function<std::int64_t(std::int64_t)>& length,
                                               int ranks, std::int64_t rows) {
  std::map<int, std::vector<std::int64_t>, std::greater<>> by_ranks;
  for (const std::int64_t conversation : conversations)
    by_ranks[ranks_of(length(conversation), rows)].push_back(conversation);
  std::vector<GroupedSequence> sequences;
  int free = 0;  // ranks of the last sequence; sizes are powers of two and fall, so that they fill it
  for (const auto& [size, members] : by_ranks) {
    for (Pack& pack : packs_of(members, length, size, rows)) {
      if (free == 0) {
        sequences.emplace_back();
        free = ranks;
      }
      sequences.back().push_back({size, std::move(pack.conversations)});
      free -= size;
    }
  }
  for (; free > 0; --free) sequences.back().emplace_back();
  return sequences;
}

}  // namespace plumbline
