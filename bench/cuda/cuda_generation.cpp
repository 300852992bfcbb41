// Generation of one rank on its GPU.
#include <optional>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/cuda/cuda_rank.hpp"
#include "bench/cuda/tensor_memory.hpp"
#include "core/backends/nccl/channels.hpp"

namespace plumbline {

generation::GenerationResult generate_on_cuda(const RunConfig& config,
                                              const generation::GenerationRequest& request,
                                              MpiCommunicator& control,
                                              const generation::GenerationProgress& progress) {
  CudaRank rank(control.rank(), {.deterministic = config.numerics.deterministic_mode});
  NcclOptions options = rank.nccl_options();
  options.channels = forward_channels(config.parallel.pipeline);
  std::optional<NcclCommunicator> communicator;
  rank.device.connect([&] { communicator.emplace(config.layout(), control, options); });
  communicator->count_tensor_time(false);  // nobody asks for it
  TensorMemory memory(*rank.operators, *communicator, config.machine.nccl_ub);
  return generate(config, request, *rank.operators, *communicator, control, memory.take(), progress);
}

}  // namespace plumbline
