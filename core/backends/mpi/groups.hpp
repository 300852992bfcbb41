// The groups of a layout as MPI communicators.
#pragma once

#include <array>

#include "core/backends/mpi/handle.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

/// This process's world rank, after MPI_Init. Throws InputError when the layout's size is not the number of
/// ranks that were started.
int started_rank(const Layout& layout);

/// By Group; null for a group of one and where this rank is not in the group.
using MpiGroups = std::array<MpiComm, kGroups>;

/// This rank's groups, on communicators of their own whose errors are returned. Collective over
/// MPI_COMM_WORLD.
MpiGroups split_groups(const Layout& layout, int rank);

}  // namespace plumbline
