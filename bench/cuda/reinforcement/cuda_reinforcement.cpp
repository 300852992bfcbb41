// Reinforcement learning of one rank on its GPU.
#include <utility>

#include "bench/cuda/cuda_backend.hpp"
#include "bench/cuda/cuda_host_lane.hpp"
#include "bench/cuda/cuda_rank.hpp"
#include "bench/cuda/reinforcement/nccl_pools.hpp"
#include "bench/cuda/tensor_memory.hpp"

namespace plumbline {

using reinforcement::ReinforcementResult;
using reinforcement::StepCommunicators;

ReinforcementResult reinforce_on_cuda(const RunConfig& config, const Schedule& schedule,
                                      const StepCommunicators& control, MPI_Comm pool,
                                      const reinforcement::ReinforcementProgress& progress) {
  CudaRank rank(control.all().rank(), {.deterministic = config.numerics.deterministic_mode});
  Operators& operators = *rank.operators;
  const NcclOptions options = rank.nccl_options();
  NcclPools pools;
  rank.device.connect([&] { pools = nccl_pools(config, schedule, control, pool, options); });
  const auto lane = cuda_host_lane(options.compute);
  if (pools.training != nullptr) {
    const int for_products = pools.training->multiprocessors_for_computation();
    count_on_multiprocessors(operators, for_products < options.multiprocessors ? for_products : 0);
    pools.training->rehearse(true);
    reinforcement::rehearse(config, schedule, operators, *pools.training, control.pool(),
                            device_memory(operators), lane.get());
    pools.training->rehearse(false);
  }
  TensorMemory memory(operators, pools.own(), config.machine.nccl_ub);
  return reinforce(config, schedule, operators, pools.messages, control, memory.take(), lane.get(), progress);
}

}  // namespace plumbline
