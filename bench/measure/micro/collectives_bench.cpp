// Collectives of the communicator over MPI, in host memory.
#include "bench/measure/micro/collectives.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "kernels/cpu/cpu_operators.hpp"

int main(int argc, char** argv) {
  using namespace plumbline;
  return collectives_main(argc, argv, [](const MpiSession& session, const CollectiveSizes& sizes) {
    MpiCommunicator communicator({1, 1, session.ranks()});
    const auto operators = make_cpu_operators();
    const auto memory = host_memory();
    return measure_collectives(communicator, *operators, *memory, sizes);
  });
}
