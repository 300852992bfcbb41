// Construction of the MPI communicator.
#include "core/backends/mpi/mpi_communicator.hpp"

namespace plumbline {

MpiCommunicator::MpiCommunicator(const Layout& layout, const MpiOptions& options)
    : Communicator(layout, started_rank(layout)),
      groups_(split_groups(layout, rank())),
      longest_call_(options.longest_call),
      waiter_(options.crowded ? *options.crowded : host_is_crowded(MPI_COMM_WORLD)),
      clock_(common_clock(MPI_COMM_WORLD)) {}

}  // namespace plumbline
