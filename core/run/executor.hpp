// Runs one rank's part of any valid schedule and records when each action began and ended.
#pragma once

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
  /// Where a send action's payload is; it stays untouched until the executor has waited for the send.
  virtual Matrix send_buffer(const Action& action) = 0;
  /// Where a receive action's payload goes.
  virtual Matrix receive_buffer(const Action& action) = 0;
  /// Called after every action of the rank, transfers included.
  virtual void finished(const Action& /*action*/) {}
};

/// Executes this rank's actions in order. A send is started and left in progress: it is waited for before the
/// next compute action that would write its buffer (same stage, same direction) and at the end. Receives
/// block. Returns this rank's events; times are communicator.now() minus `origin`.
std::vector<Event> execute(const Schedule& schedule, StageProgram& program, Communicator& communicator,
                           Seconds origin);

/// Collects the events of every pipeline rank (tensor and data coordinate 0) on all ranks. Collective over
/// world.
Trace gather_trace(const Schedule& schedule, const std::vector<Event>& mine, Communicator& communicator);

}  // namespace plumbline
