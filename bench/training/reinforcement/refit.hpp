// Weights from one split of a model to another over the same ranks, by direct messages.
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

/// Copies the values of `from` to `to`, which is not sharded; both are of one model, one storage type and the
/// same ranks, and their splits may differ. Every rank lists what both splits put where, so that nothing is
/// asked for; an element comes from this rank if it has it, else from the next one that does. Padding
/// becomes 0. Its buffers do not stay. Collective over the world.
RefitTraffic refit(const training::RankResources& from, const training::RankResources& to,
                   Bytes bucket = kRefitBucket);

}  // namespace plumbline::reinforcement
