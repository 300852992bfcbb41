#include "analysis/predict/dynamic_context.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "core/config/common_vocabulary.hpp"
#include "core/files/chat_packs.hpp"

namespace plumbline {
namespace {

/// Calls of some micro-batches: rows summed, and rows², by ranks and length.
class Calls {
 public:
  void add(const ContextGroup& group, const ChatData& chats) {
    ++rings_[group.ranks];
    for (const std::int64_t conversation : group.conversations) {
      const auto rows = static_cast<double>(rows_on_each(chats.length(conversation), group.ranks));
      // Lengths between two powers of the root of two are one.
      Sums& sums = lengths_[{group.ranks, static_cast<int>(std::floor(2 * std::log2(rows)))}];
      sums.rows += rows;
      sums.squares += rows * rows;
    }
  }
  /// Per sequence. `pairs` of all calls become `factor` times as many.
  void put_into(PackedAttention& packed, double sequences, double factor) const {
    for (const auto& [key, sums] : lengths_) {
      const int chunks = key.first > 1 ? 2 : 1;
      const double rows = chunks * std::round(sums.squares / sums.rows / chunks);
      packed.lengths.push_back(
          {static_cast<std::int64_t>(rows), factor * sums.squares / (rows * rows) / sequences, key.first});
    }
    for (const auto& [ranks, count] : rings_) packed.rings.push_back({ranks, count / sequences});
  }

 private:
  struct Sums {
    double rows = 0, squares = 0;
  };
  std::map<std::pair<int, int>, Sums> lengths_;
  std::map<int, double> rings_;
};

/// A rank's pairs of tokens: all of a group have as many.
double pairs_of(const ContextGroup& group, const ChatData& chats) {
  double pairs = 0;
  for (const std::int64_t conversation : group.conversations) {
    const auto rows = static_cast<double>(rows_on_each(chats.length(conversation), group.ranks));
    pairs += rows * rows * group.ranks / 2;
  }
  return pairs;
}

/// The context ranks of a replica in a step.
struct Replica {
  struct Visit {
    const ContextGroup* group;
    std::size_t before;  // the rank that the group has waited for
  };
  explicit Replica(std::size_t ranks) : own(ranks), clock(ranks), visits(ranks) {}

  void run(const GroupedSequence& sequence, const ChatData& chats) {
    std::size_t first = 0;
    for (const ContextGroup& group : sequence) {
      const std::size_t end = first + static_cast<std::size_t>(group.ranks);
      const auto begin = clock.begin();
      const auto last = std::max_element(begin + std::ptrdiff_t(first), begin + std::ptrdiff_t(end));
      const auto before = static_cast<std::size_t>(last - begin);
      const double pairs = pairs_of(group, chats);
      const double done = *last + pairs;
      for (std::size_t rank = first; rank < end; ++rank) {
        own[rank] += pairs;
        clock[rank] = done;
        visits[rank].push_back({&group, before});
      }
      first = end;
    }
  }
  /// Adds the calls that the latest rank has waited for.
  void chain(Calls& calls, const ChatData& chats) const {
    auto rank = static_cast<std::size_t>(std::max_element(clock.begin(), clock.end()) - clock.begin());
    for (std::size_t m = visits.front().size(); m-- > 0;) {
      const Visit& visit = visits[rank][m];
      calls.add(*visit.group, chats);
      rank = visit.before;
    }
  }
  double latest() const { return *std::max_element(clock.begin(), clock.end()); }

  std::vector<double> own;    // pairs of each rank
  std::vector<double> clock;  // and of those that it has waited for
  std::vector<std::vector<Visit>> visits;
};

}  // namespace

PackedWork dynamic_work(const RunConfig& config) {
  const ChatData chats(config.files.data, common_vocab(config), config.batch.seq_length);
  const ChatOrder order = order_of(chats, config);
  const auto ranks = static_cast<std::size_t>(config.parallel.context);
  const std::int64_t replicas = config.parallel.data();
  const std::int64_t batch = config.batch.global_batch_size;
  const std::int64_t steps = std::ssize(order.samples) / batch;
  Calls calls;
  std::vector<double> by_rank(ranks);
  double slowest = 0;
  double waited = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<Replica> all(static_cast<std::size_t>(replicas), Replica(ranks));
    for (std::int64_t i = 0; i < batch; ++i)
      all[static_cast<std::size_t>(i % replicas)].run(order.groups_of(step * batch + i), chats);
    double most = 0;
    for (const Replica& replica : all) {
      most = std::max(most, *std::max_element(replica.own.begin(), replica.own.end()));
      for (std::size_t rank = 0; rank < ranks; ++rank) by_rank[rank] += replica.own[rank];
    }
    slowest += most;
    const auto last = std::max_element(
        all.begin(), all.end(), [](const Replica& a, const Replica& b) { return a.latest() < b.latest(); });
    waited += last->latest();
    last->chain(calls, chats);
  }
  const auto length = static_cast<double>(config.batch.seq_length);
  const auto samples = static_cast<double>(steps * batch);
  const double whole = samples * length * length / 2;
  const double sum = std::accumulate(by_rank.begin(), by_rank.end(), 0.0);
  PackedWork work;
  work.attention.mean = sum / whole;
  work.attention.slowest = slowest * static_cast<double>(config.parallel.copies()) / whole;
  work.attention.waiting = waited / slowest;
  const double per_copy = sum / static_cast<double>(config.parallel.copies());
  calls.put_into(work.attention, samples / static_cast<double>(replicas), per_copy / waited);
  for (double& pairs : by_rank) pairs *= static_cast<double>(ranks) / sum;
  work.by_context_rank = std::move(by_rank);
  return work;
}

std::vector<std::vector<Traffic>> dynamic_traffic(const RunConfig& config, const RepeatedSchedule& step) {
  const ChatData chats(config.files.data, common_vocab(config), config.batch.seq_length);
  const ChatOrder order = order_of(chats, config);
  const std::int64_t batch = config.batch.global_batch_size;
  const std::int64_t first = (config.measure.warmup_steps + config.measure.steps - 1) * batch;
  const std::int64_t replicas = config.parallel.data();
  const auto copies = static_cast<std::size_t>(config.parallel.copies());
  // Micro-batches of every data rank, by the size of the ring that it is in.
  std::map<int, std::vector<std::int64_t>> rings;
  for (std::int64_t i = 0; i < batch; ++i) {
    auto rank = static_cast<std::size_t>(i % replicas * config.parallel.context);
    for (const ContextGroup& group : order.groups_of(first + i)) {
      std::vector<std::int64_t>& ring = rings.try_emplace(group.ranks, copies).first->second;
      for (int member = 0; member < group.ranks; ++member) ++ring[rank++];
    }
  }
  const auto with_rings_of = [&](int ranks) {
    RunConfig alike = config;
    alike.batch.packed.lengths.clear();
    alike.batch.packed.rings = {{ranks, 1}};
    std::vector<std::vector<Traffic>> traffic = predict_pipeline_traffic(alike, step);
    for (std::vector<Traffic>& stage : traffic) stage.resize(copies, stage.front());
    return traffic;
  };
  const std::vector<std::vector<Traffic>> alone = with_rings_of(1);
  std::vector<std::vector<Traffic>> traffic = alone;
  const std::int64_t microbatches = batch / replicas;
  for (const auto& [ranks, times] : rings) {
    if (ranks == 1) continue;
    const std::vector<std::vector<Traffic>> shared = with_rings_of(ranks);
    for (std::size_t stage = 0; stage < traffic.size(); ++stage) {
      for (std::size_t rank = 0; rank < copies; ++rank) {
        const Traffic& without = alone[stage][rank];
        const Traffic& with = shared[stage][rank];
        Traffic& sum = traffic[stage][rank];
        sum.messages_sent += (with.messages_sent - without.messages_sent) / microbatches * times[rank];
        sum.point_to_point_sent.value +=
            (with.point_to_point_sent - without.point_to_point_sent).value / microbatches * times[rank];
      }
    }
  }
  return traffic;
}

}  // namespace plumbline
