#include "analysis/diagnose/traces/own_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Rank of a track named "rank N" or "rank N ..."; -1: another name.
int rank_of_track(const std::string& title) {
  constexpr std::string_view kPrefix = "rank ";
  if (!title.starts_with(kPrefix)) return -1;
  int rank = -1;
  const char* const end = title.data() + title.size();
  const auto [stopped, error] = std::from_chars(title.data() + kPrefix.size(), end, rank);
  const bool whole = error == std::errc() && (stopped == end || *stopped == ' ');
  return whole && rank >= 0 ? rank : -1;
}

}  // namespace

std::vector<ProfileTrace> own_ranks(ProfileTrace trace, const std::map<std::string, std::string>& processes) {
  constexpr int kMostRanks = 4096;
  const auto measured = std::find_if(processes.begin(), processes.end(),
                                     [](const auto& each) { return each.second == "measured"; });
  std::vector<ProfileTrace> ranks;
  for (const TracedSlice& slice : trace.slices) {
    const TraceLane& lane = trace.lane(slice);
    if (measured != processes.end() && lane.process != measured->first) continue;
    const int rank = rank_of_track(lane.title);
    if (rank < 0 || rank >= kMostRanks) continue;
    while (static_cast<int>(ranks.size()) <= rank) {
      ProfileTrace& added = ranks.emplace_back();
      added.origin = trace.origin;
      added.rank = static_cast<int>(ranks.size()) - 1;
      added.lanes = trace.lanes;
      added.texts = trace.texts;
    }
    ProfileTrace& to = ranks[static_cast<std::size_t>(rank)];
    to.slices.push_back(slice);
    to.slices.back().kind = trace.text(slice.category) == "exposed" ? SliceKind::waiting : SliceKind::own;
  }
  if (ranks.empty()) {
    throw InputError(
        fmt::format("{}: found no track of a rank, expected those of plumbline run --trace", trace.origin));
  }
  std::int64_t end = 1;
  for (const ProfileTrace& rank : ranks) {
    for (const TracedSlice& slice : rank.slices) end = std::max(end, slice.end);
  }
  for (ProfileTrace& rank : ranks) {
    rank.own_end = end;
    rank.world_size = static_cast<int>(ranks.size());
    std::stable_sort(rank.slices.begin(), rank.slices.end(),
                     [](const TracedSlice& a, const TracedSlice& b) { return a.begin < b.begin; });
  }
  return ranks;
}

}  // namespace plumbline
