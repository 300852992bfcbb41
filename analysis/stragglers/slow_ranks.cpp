#include "analysis/stragglers/slow_ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

/// Measured ÷ predicted of one rank: the median, and its standard error.
struct Ratio {
  double median = 1;
  double error = 0;
};

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
  Ratio ratio;
  ratio.median = median(ratios);
  std::vector<double> distances;
  distances.reserve(ratios.size());
  for (const double each : ratios) distances.push_back(std::abs(each - ratio.median));
  ratio.error =
      kMedianError * kDeviationsPerMad * median(distances) / std::sqrt(static_cast<double>(ratios.size()));
  return ratio;
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
  std::vector<double> medians;
  ratios.reserve(measured.ranks.size());
  medians.reserve(measured.ranks.size());
  for (std::size_t rank = 0; rank < measured.ranks.size(); ++rank) {
    ratios.push_back(ratio_of(measured.ranks[rank], predicted.ranks[rank], rank));
    medians.push_back(ratios.back().median);
  }
  const double usual = median(medians);
  std::vector<double> distances;
  distances.reserve(medians.size());
  for (const double each : medians) distances.push_back(std::abs(each - usual));
  // Ranks differ by more than their own samples say: by what the middle ones do.
  const double between = kDeviationsPerMad * median(distances);
  std::vector<SlowRank> slow;
  for (std::size_t rank = 0; rank < ratios.size(); ++rank) {
    const double error = std::max(std::hypot(ratios[rank].error, between), 1e-9 * usual);
    const SlowRank each{static_cast<int>(rank), ratios[rank].median / usual,
                        (ratios[rank].median - usual) / error};
    if (each.factor >= limits.factor && each.certainty >= limits.certainty) slow.push_back(each);
  }
  std::sort(slow.begin(), slow.end(),
            [](const SlowRank& a, const SlowRank& b) { return a.factor > b.factor; });
  return slow;
}

}  // namespace plumbline
