// Communicator, operators and memory of a benchmark on this rank's GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <string>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/cuda/cuda_device.hpp"
#include "core/backends/nccl/device_variables.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/backends/nccl/registered_memory.hpp"
#include "core/base/error.hpp"
#include "core/base/standard_streams.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {
namespace {

/// Both ways between neighbours, and from the last to the first, in ascending order.
std::vector<Channel> ring_channels(int ranks) {
  std::vector<Channel> channels;
  for (int rank = 0; ranks > 1 && rank < ranks; ++rank) {
    const int next = (rank + 1) % ranks;
    channels.push_back({rank, next});
    channels.push_back({next, rank});
  }
  std::sort(channels.begin(), channels.end());
  channels.erase(std::unique(channels.begin(), channels.end()), channels.end());
  return channels;
}

}  // namespace

void with_cuda_messages(const Layout& layout, MpiCommunicator& control, const CudaMessages& use,
                        const std::function<void(Communicator&, Operators&, MemorySource&)>& work) {
  const std::string queues = use_all_queues();
  if (control.rank() == 0) say(queues);
  const auto operators = make_cuda_operators({.device = take_device(control.rank())});
  NcclOptions options;
  options.compute = static_cast<cudaStream_t>(cuda_stream(*operators));
  if (use.between_pipeline_ranks) options.channels = ring_channels(layout.pipeline);
  NcclCommunicator communicator(layout, control, options);
  std::unique_ptr<MemorySource> memory = device_memory(*operators);
  if (use.registered) {
    std::string why;
    memory = RegisteredMemory::make(communicator, why);
    if (!memory) throw InputError("--registered: found " + why + ", expected NCCL to register memory");
  }
  work(communicator, *operators, *memory);
}

}  // namespace plumbline
