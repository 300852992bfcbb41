// Does a schedule with explicit transfers run to its end when sends do not return before they are received?
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/schedule/schedule.hpp"

namespace plumbline {

/// The rules under which ranks exchange messages. All four are decided exactly, since a rank follows one list
/// of actions without choices. Every action that can run may run at once; actions that still wait in the end
/// wait forever.
enum class Ordering : std::uint8_t {
  /// MPI_Ssend and MPI_Recv one after another: each blocks until the other side has reached its half.
  /// Messages of one stage and direction arrive in order.
  synchronous,
  /// NCCL: neighbouring transfers of a rank are one group, started together, finished together. No tags: the
  /// n-th send to a peer meets the n-th receive from it.
  grouped,
  /// core/run/executor.hpp: sends return at once, a stage's next result in the same direction waits until the
  /// one before has been received, receives block. Receives that are posted ahead in the order of the RECVs
  /// do not change who waits for whom.
  posted_sends,
  /// Transfers return at once. But the first one between two ranks creates their communicator, which blocks
  /// both (unbatched NCCL calls in PyTorch, Megatron-LM pull request 5240). Compute waits for its received
  /// data.
  lazy_pairs,
};
std::string_view name_of(Ordering ordering);

struct Deadlock {
  bool found = false;
  int rank = -1;      // one of the ranks that wait forever, or that gets the wrong message
  int position = -1;  // where it stands
  std::string what;   // one line
};

/// Looks for a cycle of waiting ranks, or messages that would reach the wrong receive. The schedule must
/// pass check_ranges(); it may be a part of a step.
Deadlock find_deadlock(const Schedule& schedule, Ordering ordering);

/// Throws InputError when the schedule can hang under any of the orderings that libraries use unchanged:
/// synchronous, grouped.
void check_deadlock_free(const Schedule& schedule);

}  // namespace plumbline
