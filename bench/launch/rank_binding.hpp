// Processors for ranks where this process may use fewer than the machine has (taskset, cpusets).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace plumbline {

/// Whether the mask of this process leaves processors of the machine out. mpirun knows nothing of it and would bind ranks
/// to any of them.
bool mask_is_narrow();

/// What ranks on this host are told: how many processors the launching process may use and, where its mask is narrow, to
/// bind themselves within it.
std::vector<std::pair<std::string, std::string>> binding_variables(int ranks_here, bool bind_ranks);

/// Binds the calling rank as its variables say; nothing without them. Before it starts threads.
void bind_this_rank();

/// Hardware threads that all ranks of a run on this host have together: of the launching process, also on a rank that is
/// bound. 0: not known, on a rank that others started.
int usable_processors();

/// The hardware threads of one of `ranks`: its own core, else any (empty), else one thread, in turn. `cores`: the allowed
/// threads of each core.
std::vector<int> threads_of_rank(const std::vector<std::vector<int>>& cores, int rank, int ranks);

}  // namespace plumbline
