// Collectives of the communicator over NCCL, in device memory.
#include "bench/cuda/cuda_device.hpp"
#include "bench/micro/collectives.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "kernels/cuda/cuda_operators.hpp"

int main(int argc, char** argv) {
  using namespace plumbline;
  return collectives_main(argc, argv, [](const MpiSession& session, const CollectiveSizes& sizes) {
    const Layout layout{1, 1, session.ranks()};
    MpiCommunicator control(layout);
    const auto operators = make_cuda_operators({.device = take_device(session.rank())});
    NcclOptions options;
    options.compute = static_cast<cudaStream_t>(cuda_stream(*operators));
    NcclCommunicator communicator(layout, control, options);
    const auto memory = device_memory(*operators);
    return measure_collectives(communicator, *operators, *memory, sizes);
  });
}
