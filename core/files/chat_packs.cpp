#include "core/files/chat_packs.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "core/files/first_fit.hpp"

namespace plumbline {
namespace {

std::vector<std::int64_t> counted(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// As std::shuffle, but the same with every library.
void shuffle(std::vector<std::int64_t>& numbers, std::mt19937_64& random) {
  for (std::size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[random() % i]);
}

/// The longest first; the seed decides among equal ones.
std::vector<std::int64_t> by_length(const ChatData& chats, std::mt19937_64& random) {
  std::vector<std::int64_t> conversations = counted(chats.size());
  shuffle(conversations, random);
  std::stable_sort(conversations.begin(), conversations.end(),
                   [&](std::int64_t a, std::int64_t b) { return chats.length(a) > chats.length(b); });
  return conversations;
}

std::vector<std::vector<std::int64_t>> packs_of(const ChatData& chats, std::int64_t seq_length,
                                                const std::vector<std::int64_t>& conversations) {
  FirstFit fit(chats.size(), seq_length);
  std::vector<std::vector<std::int64_t>> packs;
  for (const std::int64_t conversation : conversations) {
    const std::size_t pack = fit.place(chats.length(conversation));
    if (pack >= packs.size()) packs.resize(pack + 1);
    packs[pack].push_back(conversation);
  }
  return packs;
}

/// Attention work of every pack, double its pairs of tokens: of all, or of the context group with the most.
std::vector<std::int64_t> work_of(const ChatData& chats, const ChatOrder& order) {
  std::vector<std::int64_t> work;
  work.reserve(order.sequences.size());
  for (const GroupedSequence& sequence : order.groups) {
    std::int64_t most = 0;
    for (const ContextGroup& group : sequence) {
      std::int64_t sum = 0;
      for (const std::int64_t conversation : group.conversations) {
        const std::int64_t rows = rows_on_each(chats.length(conversation), group.ranks);
        sum += rows * rows * group.ranks;
      }
      most = std::max(most, sum);
    }
    work.push_back(most);
  }
  if (!order.groups.empty()) return work;
  for (const auto& pack : order.sequences) {
    std::int64_t sum = 0;
    for (const std::int64_t conversation : pack)
      sum += chats.length(conversation) * chats.length(conversation);
    work.push_back(sum);
  }
  return work;
}

/// Orders the packs of a step so that replicas have even work.
void balance(std::vector<std::int64_t>& step, const std::vector<std::int64_t>& work, std::int64_t replicas) {
  const auto work_at = [&](std::int64_t pack) { return work[static_cast<std::size_t>(pack)]; };
  std::vector<std::int64_t> packs = step;
  std::stable_sort(packs.begin(), packs.end(),
                   [&](std::int64_t a, std::int64_t b) { return work_at(a) > work_at(b); });
  struct Replica {
    std::int64_t work = 0;
    std::size_t packs = 0;
  };
  std::vector<Replica> all(static_cast<std::size_t>(replicas));
  const std::size_t each = packs.size() / all.size();
  for (const std::int64_t pack : packs) {
    std::size_t best = all.size();
    for (std::size_t d = 0; d < all.size(); ++d) {
      if (all[d].packs < each && (best == all.size() || all[d].work < all[best].work)) best = d;
    }
    step[all[best].packs * all.size() + best] = pack;
    ++all[best].packs;
    all[best].work += work_at(pack);
  }
}

}  // namespace

ChatOrder order_of(const ChatData& chats, const RunConfig& config) {
  ChatOrder order;
  if (!config.batch.packed_sequence) {
    order.samples = counted(chats.size());
    for (const std::int64_t conversation : order.samples) order.sequences.push_back({conversation});
    return order;
  }
  std::mt19937_64 random(config.measure.seed);
  const std::vector<std::int64_t> conversations = by_length(chats, random);
  if (config.batch.dynamic_context_parallel) {
    const int ranks = config.parallel.context;
    order.groups = grouped_sequences(
        conversations, [&](std::int64_t conversation) { return chats.length(conversation); }, ranks,
        config.batch.seq_length / ranks);
    for (const GroupedSequence& groups : order.groups) {
      std::vector<std::int64_t>& sequence = order.sequences.emplace_back();
      for (const ContextGroup& group : groups)
        sequence.insert(sequence.end(), group.conversations.begin(), group.conversations.end());
    }
  } else {
    order.sequences = packs_of(chats, config.batch.seq_length, conversations);
  }
  std::vector<std::int64_t> packs = counted(std::int64_t{static_cast<std::int64_t>(order.sequences.size())});
  shuffle(packs, random);
  const std::vector<std::int64_t> work = work_of(chats, order);
  const auto batch = static_cast<std::size_t>(config.batch.global_batch_size);
  for (std::size_t first = 0; first < packs.size(); first += batch) {
    std::vector<std::int64_t> step;
    for (std::size_t i = 0; i < batch; ++i) step.push_back(packs[(first + i) % packs.size()]);
    balance(step, work, config.parallel.data());
    order.samples.insert(order.samples.end(), step.begin(), step.end());
  }
  return order;
}

}  // namespace plumbline
