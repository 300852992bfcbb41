// Runs one rank's part of any valid schedule and records when each action began and ended.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/run/communicator.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

/// The work behind a schedule's actions on one rank.
class StageProgram {
 public:
  virtual ~StageProgram() = default;
  /// Does a compute, reduction or optimizer action.
  virtual void run(const Action& action) = 0;
  /// True if the two actions of an overlapped pair run together; else they run one after the other.
  virtual bool runs_pairs() const { return false; }
  /// Does both, neither of which needs the other's result. `goes_on` is called with the one that works from
  /// then on, each time that this changes.
  virtual void run_pair(const Action& first, const Action& second,
                        const std::function<void(const Action&)>& goes_on) {
    for (const Action* action : {&first, &second}) {
      goes_on(*action);
      run(*action);
    }
  }
  /// Payload of a send action; it stays untouched until the executor has waited for the send.
  virtual Matrix send_buffer(const Action& action) = 0;
  /// Buffer for a receive action's payload.
  virtual Matrix receive_buffer(const Action& action) = 0;
  /// Called after every action of the rank, transfers included.
  virtual void finished(const Action& /*action*/) {}
};

/// When a message's receive is posted.
enum class Receives : std::uint8_t {
  in_their_turn,  // at the RECV, which then waits for it
  /// Before the last action in front of the RECV that is no transfer (overlap_p2p_comm), if any. The message
  /// travels while that action runs, and the RECV waits for the rest. Per channel in the order of the RECVs,
  /// as before.
  ahead
};

/// Executes this rank's actions in order. A send is started and left in progress: it is waited for before the
/// next compute action that would write its buffer (same stage, same direction) and at the end. An overlapped
/// pair that runs together begins when both buffers are free; its two events have the same times. Returns
/// this rank's events; times are communicator.now() minus `origin`.
std::vector<Event> execute(const Schedule& schedule, StageProgram& program, Communicator& communicator,
                           Seconds origin, Receives receives = Receives::in_their_turn);

/// Collects the events of every pipeline rank (tensor and data coordinate 0) on all ranks. Collective over
/// world.
Trace gather_trace(const Schedule& schedule, const std::vector<Event>& mine, Communicator& communicator);

}  // namespace plumbline
