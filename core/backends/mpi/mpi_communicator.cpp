// Construction and counting of the MPI communicator.
#include "core/backends/mpi/mpi_communicator.hpp"

namespace plumbline {

MpiCommunicator::MpiCommunicator(const Layout& layout, const MpiOptions& options)
    : groups_(layout),
      longest_call_(options.longest_call),
      waiter_(options.crowded ? *options.crowded : host_is_crowded(MPI_COMM_WORLD)),
      clock_(common_clock(MPI_COMM_WORLD)) {}

void MpiCommunicator::count(Group group, Bytes GroupTraffic::*kind, Bytes bytes) {
  if (members(group).comm) traffic_.of(group).add(kind, bytes);
}

}  // namespace plumbline
