// Waiting of a rank: spins while every rank has a processor of its own or is bound to one, sleeps when they
// share several.
#pragma once

#include <functional>

#include "core/backends/mpi/mpi_header.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// True when more ranks run on this host than it has processors for them, and they may move from one to
/// another. Bound ranks yield their processor at once by sched_yield (mpi_yield_when_idle) to the ranks they
/// share it with. For others the system finds nothing to run on their processor. Collective over `world`.
bool host_is_crowded(MPI_Comm world);

/// One pass of MPI's progress engine, which drives everything that is in progress.
void drive_mpi();

/// Waits for requests. A crowded rank tests a few times and then sleeps between tests. A spinning rank would
/// take the time of the one it waits for, and sched_yield gives up little under EEVDF.
class Waiter {
 public:
  /// `longest_sleep` bounds how late a crowded rank notices; the more ranks share a processor, the longer.
  explicit Waiter(bool crowded, Seconds longest_sleep = {50e-6});
  bool crowded() const { return crowded_; }
  /// Finishes `request`; throws Error with MPI's words when it failed. `meanwhile`, if given, is called again
  /// and again until then.
  void wait(MPI_Request& request, MPI_Status* status, const char* call,
            const std::function<void()>& meanwhile = {}) const;
  /// Asks again and again until `done`.
  void until(const std::function<bool()>& done) const;

 private:
  bool crowded_;
  long longest_sleep_ns_;
};

}  // namespace plumbline
