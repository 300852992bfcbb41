#include "analysis/stragglers/slow_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/statistics.hpp"

namespace plumbline {
namespace {

constexpr double kDeviationsPerMad = 1.4826;  // of a normal distribution
constexpr double kMedianError = 1.2533;       // a median's standard error against a mean's

bool computes(ActionType type) {
  return type == ActionType::forward || type == ActionType::backward || type == ActionType::backward_input ||
         type == ActionType::backward_weight;
}

constexpr std::size_t kLeastPeers = 3;
// Disturbances of a rank (a neighbour on its core, a host that takes the processor away) add time, often for
// some consecutive steps. Among this many steps some are quiet.
constexpr std::size_t kStepsOfABlock = 12;
constexpr double kLeastError = 1e-4;  // emulated ranks are alike to the last digit

/// A rank's times against others': the median, and its standard error.
struct Ratio {
  double median = 1;
  double error = 0;
};

/// A normal deviation from the median distance to the median: outliers do not count.
double robust_deviation(const std::vector<double>& values, double middle) {
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double each : values) distances.push_back(std::abs(each - middle));
  return kDeviationsPerMad * median(distances);
}

Ratio ratio_of(const std::vector<double>& ratios) {
  const double middle = median(ratios);
  return {middle,
          kMedianError * robust_deviation(ratios, middle) / std::sqrt(static_cast<double>(ratios.size()))};
}

/// Every rank against the median one. Ranks differ by more than their own samples show: by the spread of the
/// middle ones.
std::vector<RankPace> against_the_median(const std::vector<Ratio>& ratios) {
  std::vector<double> medians;
  medians.reserve(ratios.size());
  for (const Ratio& ratio : ratios) medians.push_back(ratio.median);
  const double usual = median(medians);
  const double between = robust_deviation(medians, usual);
  std::vector<RankPace> paces;
  paces.reserve(ratios.size());
  for (std::size_t rank = 0; rank < ratios.size(); ++rank) {
    const double error = std::max(std::hypot(ratios[rank].error, between) / usual, kLeastError);
    paces.push_back({static_cast<int>(rank), ratios[rank].median / usual, error});
  }
  return paces;
}

/// Least time of every action in each block of at least `in_block` steps, block by block.
std::vector<double> least_times(const std::vector<double>& seconds, std::size_t steps, std::size_t in_block) {
  const std::size_t actions = seconds.size() / std::max<std::size_t>(1, steps);
  const std::size_t blocks = std::max<std::size_t>(1, steps / in_block);
  std::vector<double> least(blocks * actions, std::numeric_limits<double>::infinity());
  for (std::size_t step = 0; step < steps; ++step) {
    const std::size_t block = step * blocks / steps;
    for (std::size_t action = 0; action < actions; ++action) {
      double& time = least[block * actions + action];
      time = std::min(time, seconds[step * actions + action]);
    }
  }
  return least;
}

/// Paces of the ranks of one stage, from their times of the same actions. Empty if no action takes any time.
std::vector<RankPace> paces_of(const std::vector<std::vector<double>>& times) {
  std::vector<std::vector<double>> against(times.size());
  for (std::size_t action = 0; action < times.front().size(); ++action) {
    std::vector<double> of_ranks;
    of_ranks.reserve(times.size());
    for (const std::vector<double>& each : times) of_ranks.push_back(each.at(action));
    const double usual = median(of_ranks);
    if (usual <= 0) continue;
    for (std::size_t i = 0; i < times.size(); ++i) against[i].push_back(of_ranks[i] / usual);
  }
  if (against.front().empty()) return {};
  std::vector<Ratio> ratios;
  ratios.reserve(against.size());
  for (const std::vector<double>& each : against) ratios.push_back(ratio_of(each));
  return against_the_median(ratios);
}

double median_error(const std::vector<RankPace>& paces) {
  std::vector<double> errors;
  errors.reserve(paces.size());
  for (const RankPace& pace : paces) errors.push_back(pace.error);
  return median(errors);
}

Ratio ratio_of(const std::vector<Event>& measured, const std::vector<Event>& predicted, std::size_t rank) {
  std::vector<double> ratios;
  ratios.reserve(measured.size());
  std::vector<const Event*> ours;
  std::vector<const Event*> theirs;
  for (const Event& event : measured)
    if (computes(event.action.type)) ours.push_back(&event);
  for (const Event& event : predicted)
    if (computes(event.action.type)) theirs.push_back(&event);
  bool same = ours.size() == theirs.size() && !ours.empty();
  for (std::size_t i = 0; same && i < ours.size(); ++i) {
    same = ours[i]->action == theirs[i]->action;
    const double expected = (theirs[i]->end - theirs[i]->start).value;
    if (expected > 0) ratios.push_back((ours[i]->end - ours[i]->start).value / expected);
  }
  if (!same || ratios.empty()) {
    throw InputError(fmt::format(
        "stragglers: rank {}: measured and predicted actions differ, expected the two timelines of one step",
        rank));
  }
  return ratio_of(ratios);
}

}  // namespace

std::vector<SlowRank> slow_ranks(const Trace& measured, const Trace& predicted,
                                 const SlowRankLimits& limits) {
  if (measured.ranks.size() < 3 || measured.ranks.size() != predicted.ranks.size()) {
    throw InputError(
        fmt::format("stragglers: found {} measured and {} predicted pipeline ranks, expected as many, three "
                    "at least",
                    measured.ranks.size(), predicted.ranks.size()));
  }
  std::vector<Ratio> ratios;
  ratios.reserve(measured.ranks.size());
  for (std::size_t rank = 0; rank < measured.ranks.size(); ++rank)
    ratios.push_back(ratio_of(measured.ranks[rank], predicted.ranks[rank], rank));
  return slow_ranks(against_the_median(ratios), limits);
}

std::vector<RankPace> rank_paces(const std::vector<ComputingRank>& ranks, std::size_t steps) {
  std::map<int, std::vector<std::size_t>> of_stage;
  for (std::size_t i = 0; i < ranks.size(); ++i) of_stage[ranks[i].stage].push_back(i);
  std::vector<RankPace> paces(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) paces[i].rank = ranks[i].rank;
  for (const auto& [stage, peers] : of_stage) {
    if (peers.size() < kLeastPeers) continue;
    std::vector<RankPace> best;
    for (const std::size_t in_block : {std::size_t{1}, kStepsOfABlock}) {
      std::vector<std::vector<double>> times;
      times.reserve(peers.size());
      for (const std::size_t peer : peers)
        times.push_back(least_times(*ranks[peer].seconds, steps, in_block));
      std::vector<RankPace> of_peers = paces_of(times);
      if (best.empty() || (!of_peers.empty() && median_error(of_peers) < median_error(best)))
        best = std::move(of_peers);
    }
    for (std::size_t i = 0; i < best.size(); ++i) {
      paces[peers[i]].factor = best[i].factor;
      paces[peers[i]].error = best[i].error;
    }
  }
  return paces;
}

std::vector<SlowRank> slow_ranks(const std::vector<RankPace>& paces, const SlowRankLimits& limits) {
  std::vector<SlowRank> slow;
  for (const RankPace& pace : paces) {
    const SlowRank each{pace.rank, pace.factor, (pace.factor - 1) / pace.error};
    if (each.factor >= limits.factor && each.certainty >= limits.certainty) slow.push_back(each);
  }
  std::sort(slow.begin(), slow.end(),
            [](const SlowRank& a, const SlowRank& b) { return a.factor > b.factor; });
  return slow;
}

double least_named_factor(const std::vector<RankPace>& paces, const SlowRankLimits& limits) {
  double least = limits.factor;
  for (const RankPace& pace : paces)
    if (!std::isnan(pace.error)) least = std::max(least, 1 + limits.certainty * pace.error);
  return least;
}

}  // namespace plumbline
