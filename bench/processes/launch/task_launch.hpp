// One job from tasks that cannot speak MPI: of torchrun, or of srun without PMIx.
//
// The tasks meet in a store at rank 0's address. The first of them starts mpirun over the hosts that they
// have named. The first task of every other host starts mpirun's daemon there when told to. All wait for the
// end and end the same way.
#pragma once

#include <string>

#include "bench/processes/hosts/placement.hpp"
#include "bench/processes/launch/launch.hpp"
#include "core/base/units.hpp"

namespace plumbline {

struct TaskLaunch {
  Placement placement;
  std::string version;  // of this program; all tasks have the same
  std::string work;     // their work, the same for all
  LaunchSpec spec;      // of the first task; hosts and for_tasks are filled in
  Seconds to_meet{120};
};

/// Returns the exit code that every task ends with. The first prints rank 0's output. Throws InputError on
/// the first task when the tasks differ in version or work, or when several hosts share no secret; Error when
/// a task does not come, or the first one leaves.
int launch_from_tasks(const TaskLaunch& launch);

}  // namespace plumbline
