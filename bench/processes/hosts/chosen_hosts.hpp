// Hosts of the ranks of `run` and `matrix`.
#pragma once

#include <string>
#include <vector>

#include "bench/processes/hosts/host_list.hpp"
#include "bench/processes/hosts/variables.hpp"

namespace plumbline {

/// `--launcher` and `--hostfile` as they were given, empty when not.
struct LauncherOptions {
  std::string launcher;  // local, mpirun (slurm only submits: bench/matrix/job_script.hpp)
  std::string hostfile;
};

/// Hosts for the ranks, in order: those of the hostfile, else those of the Slurm job that this process is in.
/// Empty: this host alone, also for no option or `local`. Throws InputError when the options contradict each
/// other or there are no hosts for mpirun.
std::vector<Host> chosen_hosts(const LauncherOptions& options, const Variables& variables);

}  // namespace plumbline
