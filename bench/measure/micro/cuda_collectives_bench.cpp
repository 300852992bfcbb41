// Collectives of the communicator over NCCL, in device memory.
#include "bench/cuda/cuda_device.hpp"
#include "bench/measure/micro/collectives.hpp"
#include "core/backends/nccl/registered_memory.hpp"
#include "core/base/error.hpp"
#include "kernels/cuda/cuda_operators.hpp"

int main(int argc, char** argv) {
  using namespace plumbline;
  return collectives_main(argc, argv, [](const MpiSession& session, const CollectiveSizes& sizes) {
    Layout layout{1, 1, session.ranks()};
    layout.context = session.ranks();  // a ring of all of them
    MpiCommunicator control(layout);
    const auto operators = make_cuda_operators({.device = take_device(session.rank())});
    NcclOptions options;
    options.compute = static_cast<cudaStream_t>(cuda_stream(*operators));
    options.context_ring = session.ranks();
    NcclCommunicator communicator(layout, control, options);
    std::unique_ptr<MemorySource> memory = device_memory(*operators);
    if (sizes.registered) {
      std::string why;
      memory = RegisteredMemory::make(communicator, why);
      if (!memory) throw Error("registered: " + why);
    }
    return measure_collectives(communicator, *operators, *memory, sizes);
  });
}
