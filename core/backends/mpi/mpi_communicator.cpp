// Construction of the MPI communicator.
#include "core/backends/mpi/mpi_communicator.hpp"

namespace plumbline {

MpiCommunicator::MpiCommunicator(const Layout& layout, const MpiOptions& options)
    : Communicator(layout, started_rank(layout, options.world)),
      groups_(split_groups(layout, rank(), options.world)),
      longest_call_(options.longest_call),
      waiter_(options.crowded ? *options.crowded : host_is_crowded(options.world)),
      clock_(common_clock(options.world)) {}

}  // namespace plumbline
