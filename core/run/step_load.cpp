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

std::vector<StepLoad> step_loads_of(const std::vector<LoadOfParts>& ranks, int processors) {
  std::vector<StepLoad> loads;
  loads.reserve(kStepParts);
  std::vector<RankLoad> part(ranks.size());
  for (std::size_t i = 0; i < kStepParts; ++i) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) part[rank] = ranks[rank][i];
    loads.push_back(step_load_of(part, processors));
  }
  return loads;
}

}  // namespace plumbline
