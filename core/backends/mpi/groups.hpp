// The groups of a layout as MPI communicators.
#pragma once

#include <array>

#include "core/backends/mpi/handle.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

/// This process's rank in `world`, after MPI_Init. Throws InputError when the layout's size is not that of
/// `world`, by default all ranks that were started.
int started_rank(const Layout& layout, MPI_Comm world = MPI_COMM_WORLD);

/// By Group; null for a group of one and where this rank is not in the group.
using MpiGroups = std::array<MpiComm, kGroups>;

/// This rank's groups, on communicators of their own whose errors are returned. Collective over `world`.
MpiGroups split_groups(const Layout& layout, int rank, MPI_Comm world = MPI_COMM_WORLD);

/// This rank's pool: the first `count` of the started ranks, or the others. Collective over MPI_COMM_WORLD.
MpiComm pool_of_first(int count);

}  // namespace plumbline
