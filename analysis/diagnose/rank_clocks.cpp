#include "analysis/diagnose/rank_clocks.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

/// Calls of the step by key, in order; without transfers between two ranks, which end on one of them first.
std::map<std::string, std::vector<TracedCall>> calls_by_key(const RankBreakdown& rank) {
  std::map<std::string, std::vector<TracedCall>> calls;
  for (const TracedCall& call : rank.collectives) {
    const bool inside = call.begin >= rank.step.begin && call.begin < rank.step.end;
    if (inside && call.share != TimeShare::pipeline) calls[call.key].push_back(call);
  }
  return calls;
}

/// One collective on every rank.
using MatchedCalls = std::vector<std::vector<TracedCall>>;

MatchedCalls matched_calls(const std::vector<RankBreakdown>& ranks) {
  std::vector<std::map<std::string, std::vector<TracedCall>>> calls;
  calls.reserve(ranks.size());
  for (const RankBreakdown& rank : ranks) calls.push_back(calls_by_key(rank));
  MatchedCalls matched;
  for (const auto& [key, first] : calls.front()) {
    const auto& name = key;
    const std::size_t count = first.size();
    const bool everywhere = std::all_of(calls.begin(), calls.end(), [&](const auto& rank) {
      const auto found = rank.find(name);
      return found != rank.end() && found->second.size() == count;
    });
    if (!everywhere) continue;
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<TracedCall>& one = matched.emplace_back();
      for (const auto& rank : calls) one.push_back(rank.at(name)[i]);
    }
  }
  return matched;
}

/// Seconds of [begin, end) in which the rank's communication is exposed.
double exposed_in(const RankBreakdown& rank, std::int64_t begin, std::int64_t end) {
  auto span = std::partition_point(rank.exposed.begin(), rank.exposed.end(),
                                   [begin](const TimeSpan& each) { return each.end <= begin; });
  std::int64_t sum = 0;
  for (; span != rank.exposed.end() && span->begin < end; ++span)
    sum += std::max<std::int64_t>(0, std::min(span->end, end) - std::max(span->begin, begin));
  return static_cast<double>(sum) * 1e-9;
}

}  // namespace

AlignedClocks align_clocks(const std::vector<RankBreakdown>& ranks) {
  AlignedClocks clocks;
  clocks.offsets.assign(ranks.size(), 0);
  if (ranks.size() < 2) return clocks;
  const MatchedCalls matched = matched_calls(ranks);
  clocks.matched = static_cast<std::int64_t>(matched.size());
  if (matched.empty()) return clocks;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    std::vector<std::int64_t> differences;
    differences.reserve(matched.size());
    for (const auto& call : matched) differences.push_back(call.front().end - call[rank].end);
    clocks.offsets[rank] = lower_median(std::move(differences));
  }
  std::map<std::pair<int, int>, double> waits;
  for (const auto& call : matched) {
    std::size_t late = 0;
    const auto begin_of = [&](std::size_t rank) { return call[rank].begin + clocks.offsets[rank]; };
    for (std::size_t rank = 1; rank < call.size(); ++rank) {
      if (begin_of(rank) > begin_of(late)) late = rank;
    }
    for (std::size_t rank = 0; rank < call.size(); ++rank) {
      const std::int64_t arrival = std::min(begin_of(late) - clocks.offsets[rank], call[rank].end);
      if (rank == late || arrival <= call[rank].begin) continue;
      waits[{static_cast<int>(rank), static_cast<int>(late)}] +=
          exposed_in(ranks[rank], call[rank].begin, arrival);
    }
  }
  for (const auto& [pair, seconds] : waits) clocks.waits.push_back({pair.first, pair.second, seconds});
  std::stable_sort(clocks.waits.begin(), clocks.waits.end(),
                   [](const RankWait& a, const RankWait& b) { return a.seconds > b.seconds; });
  return clocks;
}

}  // namespace plumbline
