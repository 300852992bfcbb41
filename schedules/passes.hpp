// Passes: functions from Schedule to Schedule.
#pragma once

#include <cstdint>
#include <limits>

#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Order of the transfers that meet between two compute actions of a rank.
enum class TransferOrder : std::uint8_t {
  /// Runs to the end even if every SEND and RECV blocks until the other side has reached its half (MPI
  /// synchronous sends). Also if neighbouring transfers are one group per rank matched in order (NCCL).
  blocking,
  /// Sends before receives in each group. Needs sends that return at once or grouped calls. The two
  /// directions between neighbours then overlap, which saves a transfer time per micro-batch in steady 1F1B.
  sends_first,
  /// Every SEND right after its producer and every RECV right before its consumer, sends first where they
  /// meet. For executors with one send buffer per stage and direction whose sends return at once (posted),
  /// and with a channel of its own for each direction between two ranks, as in core/run/executor.hpp and the
  /// communicators. The n-th message of a channel is the n-th that is received. If the schedule's order does
  /// not allow this: as sends_first.
  posted,
};

/// Inserts SEND_* right after the producer and RECV_* right before the consumer, for every hop between ranks;
/// hops within a rank get none. If all ranks would wait for one another in that order, a SEND moves behind
/// the RECVs it meets; a RECV moves earlier only if nothing else helps (interleaving with groups larger than
/// P). Existing transfers are replaced. Throws InputError when the schedule cannot run at all.
Schedule add_transfers(const Schedule& schedule, TransferOrder order = TransferOrder::blocking);

/// Removes all transfers.
Schedule drop_transfers(const Schedule& schedule);

struct StepEndActions {
  bool data_parallel = false;   // more than one replica: gradients are reduced (ARG)
  bool tied_embedding = false;  // first and last stage hold copies: ARE on both when they are on two ranks
};
/// Appends ARG, ARE (first and last rank) and OPT (every rank). With two routes ARG is always there, since
/// the routes are replicas of each other. ARE never is: a rank with a first stage also holds a last one.
Schedule add_step_end(Schedule schedule, StepEndActions end);

/// Every B becomes I and W; the W follows the sends of the gradient that I made, and an overlapped pair.
Schedule split_backward(const Schedule& schedule);
/// On last stages every B, or the first `most` of a stage, becomes I and a W that follows all other actions
/// of the rank: with Schedule::defers_output_gradient the output layer's weight gradient alone
/// (Megatron-Core's defer_embedding_wgrad_compute). To be applied before transfers and the step's end are
/// added. Throws InputError when a backward is split already.
Schedule defer_output_gradients(Schedule schedule,
                                std::int64_t most = std::numeric_limits<std::int64_t>::max());
/// Every I whose W is the next compute action of the rank becomes B; others stay as they are.
Schedule merge_backward(const Schedule& schedule);

}  // namespace plumbline
