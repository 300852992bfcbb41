// Starts a program as N MPI ranks under mpirun and reports how it ended, leaving nothing behind.
//
// Between the caller and mpirun stands a supervisor: the same executable in a session of its own, which holds
// one end of a pipe. When the caller dies, however it dies, the pipe closes. The supervisor then kills
// mpirun, the ranks and their children (it is their subreaper), and removes the run's folder with the shared
// memory in it. If the supervisor is killed as well, mpirun and the ranks die with their parents. The next
// command, whatever it is, removes the folder (main).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/processes/hosts/host_list.hpp"
#include "bench/processes/launch/launch_result.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// Must be the first thing in main of a program that is given to launch(). Acts as supervisor when asked to
/// (returns its exit code), and ties a launched rank's life to mpirun's. Otherwise does nothing.
std::optional<int> launch_entry(int argc, char** argv);

/// Path of the running executable.
std::string self_path();
/// The words it was started with, without its name.
std::vector<std::string> command_line();

struct LaunchSpec {
  std::string program;  // calls launch_entry(); usually self_path()
  std::vector<std::string> arguments;
  int ranks = 1;
  Seconds timeout{300};
  bool timeout_per_step = false;  // counted from every step that a rank reports (step_of())
  Seconds abort_grace{20};        // for mpirun to end once it has said that a rank failed
  std::vector<Host> hosts;        // that ranks fill in this order, this one first; empty: this one takes all
  bool for_tasks = false;  // this process is one of several tasks, and the other tasks wait for the ranks it
                           // starts
  std::vector<std::pair<std::string, std::string>> environment;  // added to the caller's own
  int threads_per_rank = 1;                                      // OMP_NUM_THREADS
  bool bind_ranks = true;                          // false: ranks have threads that spin, and bind themselves
  std::size_t kept_output = 131072;                // bytes per stream; of longer output the middle is dropped
  std::function<void(const OutputLine&)> on_line;  // optional, called as lines come
  std::function<bool()>
      on_tick;  // optional, called every `tick`, and whenever something was said; false stops the run
  Seconds tick{0.1};
};

/// Runs to the end, to the timeout or until on_tick says stop. Daemons on other hosts are started by ssh, by
/// srun within a Slurm job, or by the words of PLUMBLINE_LAUNCH_AGENT. They need this program at the same
/// path. Throws InputError when this process is a rank itself or the first host is not this one, and Error
/// when mpirun cannot be started at all.
LaunchResult launch(const LaunchSpec& spec);

/// Launcher that started this process as one of several ("mpirun", "PMIx", "PMI", "torchrun", "srun"),
/// nullptr when it runs alone. Reads environment variables only. Throws InputError when they contradict each
/// other.
const char* already_launched_by();

}  // namespace plumbline
