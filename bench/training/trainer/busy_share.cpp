#include "bench/training/trainer/busy_share.hpp"

namespace plumbline::training {

BusyTime mean_shares(const std::vector<BusyTime>& ranks, Seconds busy) {
  BusyTime mean{busy, {}, {}, {}, {}};
  Seconds all;
  for (const BusyTime& rank : ranks) all += rank.busy;
  if (all.value <= 0) return mean;
  const double share = busy / all;
  for (const BusyTime& rank : ranks) {
    mean.tensor_communication += rank.tensor_communication * share;
    mean.data_communication += rank.data_communication * share;
    mean.host_waits += rank.host_waits * share;
    for (std::size_t call = 0; call < mean.vocabulary_waits.size(); ++call) {
      mean.vocabulary_waits[call] += rank.vocabulary_waits[call] * share;
    }
  }
  return mean;
}

Seconds mean_busy(const Trace& trace) {
  Seconds busy;
  for (int rank = 0; rank < static_cast<int>(trace.ranks.size()); ++rank) busy += trace.busy(rank);
  return trace.ranks.empty() ? busy : busy / static_cast<double>(trace.ranks.size());
}

}  // namespace plumbline::training
