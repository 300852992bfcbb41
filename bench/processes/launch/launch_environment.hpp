// The mpirun command line and the settings that make Open MPI behave on one machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/processes/hosts/host_list.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// mpirun, its options for this many ranks, and the program with its arguments. Ranks are bound to a core
/// each if there are enough. With fewer processors than ranks they are bound to these round robin, unless
/// `bind_ranks` is false. Without hosts all are started here; with several,
/// ranks on each of them get this process's device_variables().
std::vector<std::string> mpirun_command(int ranks, const std::string& program,
                                        const std::vector<std::string>& arguments, bool bind_ranks,
                                        const std::vector<Host>& hosts = {});

/// Further variables for mpirun to start daemons on other hosts through the agent (`program` starts it).
std::vector<std::pair<std::string, std::string>> agent_environment(const std::string& program,
                                                                   const std::vector<Host>& hosts,
                                                                   Seconds timeout);

/// Environment variables for mpirun and its ranks. `folder` takes session folders; `ranks` of this host.
std::vector<std::pair<std::string, std::string>> mpirun_environment(const std::string& folder, int ranks,
                                                                    int threads_per_rank);

/// Upper bound of the launch's files in its folder: Open MPI's segments and its daemon's tables.
Bytes shared_memory_of(int ranks);

/// Makes sure that mpirun and its ranks may open as many files as they need: with too few it hangs instead of
/// failing. Raises the limit of this process as far as allowed; throws InputError if it is not.
void require_open_files(int ranks);

/// Makes sure that Open MPI's segments may have their size (ulimit -f) and that there is a current folder,
/// which mpirun asks for. Raises the soft limit as far as allowed; throws InputError if that is too little.
void require_place_of_ranks();

/// "; tight limits: ulimit -u 8, ...; raise them" for limits of processes, address space, open files and file
/// sizes that a launch may have failed by; empty: there are none.
std::string tight_limits();

/// For ranks of this host alone: without ssh and rsh in PATH mpirun must not look for them.
std::vector<std::pair<std::string, std::string>> local_environment();

/// True if one process of this user may read another's memory (process_vm_readv between siblings), which Open
/// MPI's single-copy transfers need and containers often forbid.
bool single_copy_works();

}  // namespace plumbline
