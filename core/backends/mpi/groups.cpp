#include "core/backends/mpi/groups.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/backends/mpi/check.hpp"
#include "core/base/error.hpp"

namespace plumbline {

MpiGroups::MpiGroups(const Layout& layout) : layout_(layout) {
  int started = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &started), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  if (started != layout.world()) {
    throw InputError(fmt::format(
        "{} ranks were started, but tensor {} x pipeline {} x data {} needs {}: change the sizes or the "
        "number of ranks",
        started, layout.tensor, layout.pipeline, layout.data, layout.world()));
  }
  for (int i = 0; i < kGroups; ++i) {
    MpiGroup& group = groups_[static_cast<std::size_t>(i)];
    group.ranks = layout.members(static_cast<Group>(i), rank_);
    const auto mine = std::find(group.ranks.begin(), group.ranks.end(), rank_);
    group.mine = static_cast<int>(mine - group.ranks.begin());
    // A split is collective, so ranks outside the group and in groups of one take part with no colour.
    const int color = group.ranks.size() > 1 ? group.ranks.front() : MPI_UNDEFINED;
    check_mpi(MPI_Comm_split(MPI_COMM_WORLD, color, rank_, group.comm.out()), "MPI_Comm_split");
    if (group.comm) {
      check_mpi(MPI_Comm_set_errhandler(group.comm.get(), MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
  }
}

const MpiGroup& MpiGroups::of(Group group) const {
  const MpiGroup& found = groups_[static_cast<std::size_t>(group)];
  if (found.ranks.empty()) throw Error(fmt::format("rank {} is not in the {} group", rank_, name_of(group)));
  return found;
}

}  // namespace plumbline
