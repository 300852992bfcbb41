#include "core/run/step_load.hpp"

#include <algorithm>
#include <limits>

namespace plumbline {

StepLoad step_load_of(const std::vector<RankLoad>& ranks, int processors) {
  const RankLoad& first = ranks.front();
  const auto count = static_cast<double>(ranks.size());
  StepLoad load;
  load.wall = first.wall;
  Seconds own, waited;
  for (const RankLoad& rank : ranks) {
    own += rank.own;
    waited += rank.waited;
    load.involuntary += rank.involuntary;
    load.frequency += rank.frequency / count;
  }
  const Seconds all = first.wall * processors;
  load.others = (first.busy - own) / all;
  load.stolen = first.stolen / all;
  load.waited = static_cast<int>(ranks.size()) > processors ? std::numeric_limits<double>::quiet_NaN()
                                                            : waited / (first.wall * count);
  return load;
}

std::vector<double> lost_by_rank(const std::vector<RankLoad>& ranks) {
  std::vector<double> lost;
  lost.reserve(ranks.size());
  for (const RankLoad& rank : ranks) {
    int sharers = 0;
    double theirs = 0;  // processors that they had on average
    for (const RankLoad& other : ranks) {
      if (other.affinity != rank.affinity) continue;
      ++sharers;
      theirs += other.own / other.wall;
    }
    const bool crowded = sharers > rank.affinity.count;
    lost.push_back(crowded ? 1 - theirs / rank.affinity.count : rank.waited / rank.wall);
  }
  return lost;
}

std::vector<std::vector<double>> lost_by_part(const std::vector<LoadOfParts>& ranks) {
  std::vector<std::vector<double>> lost;
  lost.reserve(kStepParts);
  std::vector<RankLoad> part(ranks.size());
  for (std::size_t i = 0; i < kStepParts; ++i) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) part[rank] = ranks[rank][i];
    lost.push_back(lost_by_rank(part));
  }
  return lost;
}

}  // namespace plumbline
