// Starts a program as N MPI ranks under mpirun and reports how it ended, leaving nothing behind.
//
// Between the caller and mpirun stands a supervisor: the same executable in a session of its own, which holds
// one end of a pipe. When the caller dies, however it dies, the pipe closes. The supervisor then kills
// mpirun, the ranks and their children (it is their subreaper), and removes the run's folder with the shared
// memory in it. If the supervisor is killed as well, mpirun and the ranks die with their parents. The next
// command, whatever it is, removes the folder (main).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/processes/launch/launch_result.hpp"
#include "bench/processes/launch/launch_spec.hpp"

namespace plumbline {

/// Must be the first thing in main of a program that is given to launch(). Acts as supervisor when asked to
/// (returns its exit code), and ties a launched rank's life to mpirun's. Otherwise does nothing.
std::optional<int> launch_entry(int argc, char** argv);

/// Path of the running executable.
std::string self_path();
/// The words it was started with, without its name.
std::vector<std::string> command_line();

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
