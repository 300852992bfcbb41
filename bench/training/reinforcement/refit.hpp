// Weights from one split of a model to another over the same ranks or over others, by direct messages.
#pragma once

#include "bench/training/ends/rank_resources.hpp"

namespace plumbline::reinforcement {

/// Largest message, of which a rank has one each way at a time; a larger rectangle is one of its own.
constexpr Bytes kRefitBucket{std::int64_t{64} << 20};

/// Bytes of one rank.
struct RefitTraffic {
  Bytes sent, received;
  Bytes copied;  // within the rank
};

/// A model's split over neighbouring ranks, known on every rank.
struct RefitSide {
  RunConfig config;  // of the model's resources
  training::StageMap placement;
  int first = 0;                                   // of its ranks
  const training::RankResources* model = nullptr;  // this rank's part; null: it has none
};

/// Ranks of a refit, and this one's tools.
struct RefitMeans {
  Communicator& ranks;  // of both sides
  Operators& operators;
  Arena& arena;
};

/// Copies the values of `from` to `to`, which is not sharded; both are of one model and one storage type, on
/// the same ranks or on ranks of their own. Every rank lists what both splits put where, so that nothing is
/// asked for; an element comes from this rank if it has it, else from the next one that does. Padding
/// becomes 0. Its buffers do not stay. Collective over the ranks.
RefitTraffic refit(const RefitSide& from, const RefitSide& to, const RefitMeans& means,
                   Bytes bucket = kRefitBucket);

}  // namespace plumbline::reinforcement
