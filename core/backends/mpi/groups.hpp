// The groups of a layout as MPI communicators.
#pragma once

#include <array>
#include <vector>

#include "core/backends/mpi/handle.hpp"
#include "core/parallel/layout.hpp"

namespace plumbline {

struct MpiGroup {
  std::vector<int> ranks;  // world ranks, ascending; empty when this rank is not in the group
  MpiComm comm;            // null for a group of one
  int mine = 0;            // this rank's place in `ranks`
};

/// This rank's groups, on communicators of their own whose errors are returned.
class MpiGroups {
 public:
  /// Collective over MPI_COMM_WORLD. Throws InputError when the layout's size is not the number of ranks that
  /// were started.
  explicit MpiGroups(const Layout& layout);

  const Layout& layout() const { return layout_; }
  int rank() const { return rank_; }
  /// Throws Error when this rank is not in the group.
  const MpiGroup& of(Group group) const;

 private:
  Layout layout_;
  int rank_ = 0;
  std::array<MpiGroup, kGroups> groups_;
};

}  // namespace plumbline
