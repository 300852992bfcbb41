// Measures collectives and messages through the MPI communicator, with all started ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "core/run/communicator.hpp"

namespace plumbline::calibration {

/// Seconds of one collective of the tensor group (all_reduce, all_gather or reduce_scatter, `bytes` in all)
/// and of one message between neighbours, as in calibration. All ranks of the communicator call together;
/// `buffer` has room for two messages of `bytes`.
double collective_seconds(Communicator& communicator, CollectiveKind kind, DType type, bool started,
                          std::int64_t bytes, std::byte* buffer);
double message_seconds(Communicator& communicator, std::int64_t bytes, std::byte* buffer);

struct MessageTimes {
  std::vector<CollectiveTime> collectives;
  MessageTime message;
};

/// Collectives in groups of 2, 4, … up to the world, all groups at once, and messages between neighbours,
/// all pairs at once. Collective over MPI_COMM_WORLD; the times are rank 0's.
MessageTimes measure_messages();

}  // namespace plumbline::calibration
