#include "core/backends/mpi/groups.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/backends/mpi/check.hpp"
#include "core/base/error.hpp"

namespace plumbline {

int started_rank(const Layout& layout, MPI_Comm world) {
  int started = 0;
  int rank = 0;
  check_mpi(MPI_Comm_size(world, &started), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(world, &rank), "MPI_Comm_rank");
  if (started != layout.world()) {
    throw InputError(
        fmt::format("world_size: found {0} started ranks, expected {4} (tensor {1} x pipeline {2} x data "
                    "{3}); change the sizes or the number of ranks",
                    started, layout.tensor, layout.pipeline, layout.data, layout.world()));
  }
  return rank;
}

MpiGroups split_groups(const Layout& layout, int rank, MPI_Comm world) {
  MpiGroups groups;
  for (int i = 0; i < kGroups; ++i) {
    MpiComm& comm = groups[static_cast<std::size_t>(i)];
    const std::vector<int> ranks = layout.members(static_cast<Group>(i), rank);
    // A split is collective, so ranks outside the group and in groups of one take part with no colour.
    const int color = ranks.size() > 1 ? ranks.front() : MPI_UNDEFINED;
    check_mpi(MPI_Comm_split(world, color, rank, comm.out()), "MPI_Comm_split");
    if (comm) check_mpi(MPI_Comm_set_errhandler(comm.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  return groups;
}

MpiComm pool_of_first(int count) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  MpiComm pool;
  check_mpi(MPI_Comm_split(MPI_COMM_WORLD, rank < count ? 0 : 1, rank, pool.out()), "MPI_Comm_split");
  return pool;
}

}  // namespace plumbline
