// Measures collectives and messages through the MPI communicator, with as many ranks as were started.
#pragma once

#include <vector>

#include "analysis/hardware/hardware.hpp"

namespace plumbline::calibration {

struct MessageTimes {
  std::vector<CollectiveTime> all_reduce;
  MessageTime message;
};

/// All-reduces in groups of 2, 4, … up to the world, all groups at once, and messages between neighbours, all
/// pairs at once. Collective over MPI_COMM_WORLD; the times are rank 0's.
MessageTimes measure_messages();

}  // namespace plumbline::calibration
