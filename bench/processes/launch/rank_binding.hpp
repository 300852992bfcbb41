// Processors for ranks if this process may use fewer than the machine has (taskset, cpusets).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace plumbline {

/// True if the affinity mask of this process excludes processors of the machine. mpirun ignores it and would
/// bind ranks to any of them.
bool mask_is_narrow();

/// Environment for the ranks on this host: the number of processors that the launching process may use and,
/// if its mask is narrow, the order to bind themselves within it.
std::vector<std::pair<std::string, std::string>> binding_variables(int ranks_here, bool bind_ranks);

/// Binds the calling rank according to its variables, if any. Call before it starts threads.
void bind_this_rank();

/// Hardware threads for all ranks of a run on this host: those of the launching process, also on a rank that
/// is bound. 0: unknown, on a rank that another launcher started.
int usable_processors();

/// The hardware threads of one of `ranks`: its own core, else any (empty), else one thread, round robin.
/// `cores`: the allowed threads of each core.
std::vector<int> threads_of_rank(const std::vector<std::vector<int>>& cores, int rank, int ranks);

}  // namespace plumbline
