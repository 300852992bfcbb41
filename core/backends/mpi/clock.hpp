// A clock common to all ranks.
#pragma once

#include "core/backends/mpi/mpi_header.hpp"
#include "core/run/monotonic_clock.hpp"

namespace plumbline {

/// Offset from this rank's clock to rank 0's, and its error bound.
struct ClockOffset {
  Seconds offset;
  Seconds error;
};

/// Zero when all ranks of `world` share one host (and so one clock). Otherwise measured. Collective.
ClockOffset common_clock(MPI_Comm world);

/// Asks rank 0 for its time over and over; the quickest answer bounds the error by half its round trip
/// (Cristian 1989, "Probabilistic clock synchronization"). The error is the worst of all ranks. Collective.
ClockOffset measure_clock_offset(MPI_Comm world);

}  // namespace plumbline
