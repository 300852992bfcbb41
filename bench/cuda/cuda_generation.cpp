// Generation of one rank on its GPU.
#include <cuda_runtime_api.h>

#include <optional>
#include <string>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/cuda/cuda_device.hpp"
#include "bench/cuda/device_memory_watch.hpp"
#include "bench/cuda/tensor_memory.hpp"
#include "core/backends/nccl/device_variables.hpp"
#include "core/backends/nccl/nccl_communicator.hpp"
#include "core/base/standard_streams.hpp"
#include "kernels/cuda/cuda_operators.hpp"

namespace plumbline {
namespace {

/// From every stage to the next.
std::vector<Channel> forward_channels(const RunConfig& config) {
  std::vector<Channel> channels;
  for (int rank = 0; rank + 1 < config.parallel.pipeline; ++rank) channels.push_back({rank, rank + 1});
  return channels;
}

}  // namespace

generation::GenerationResult generate_on_cuda(const RunConfig& config,
                                              const generation::GenerationRequest& request,
                                              MpiCommunicator& control,
                                              const generation::GenerationProgress& progress) {
  const std::string queues = use_all_queues();
  if (control.rank() == 0) say(queues);
  const DevicePlace place(control.rank());
  DeviceMemoryWatch device(place);
  const auto operators = device.open({.deterministic = config.numerics.deterministic_mode});
  NcclOptions options;
  options.compute = static_cast<cudaStream_t>(cuda_stream(*operators));
  options.channels = forward_channels(config);
  options.multiprocessors = cuda_multiprocessors(*operators);
  std::optional<NcclCommunicator> communicator;
  device.connect([&] { communicator.emplace(config.layout(), control, options); });
  TensorMemory memory(*operators, *communicator, config.machine.nccl_ub);
  return generate(config, request, *operators, *communicator, control, memory.take(), progress);
}

}  // namespace plumbline
