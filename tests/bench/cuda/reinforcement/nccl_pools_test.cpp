// Steps of reinforcement learning over NCCL, on a device that is threads: numbers of a run over MPI, bit for
// bit.
#include "bench/cuda/reinforcement/nccl_pools.hpp"

#include <gtest/gtest.h>

#include <new>

#include "bench/cuda/cuda_host_lane.hpp"
#include "tests/bench/training/reinforcement/reinforcement_fixture.hpp"
#include "tests/core/backends/fake_gpu/nccl_rank.hpp"

namespace plumbline::reinforcement {
namespace {

class FakeMemory final : public MemorySource {
 public:
  void* allocate(Bytes bytes) override {
    void* data = nullptr;
    if (cudaMalloc(&data, static_cast<std::size_t>(bytes.value)) != cudaSuccess) throw std::bad_alloc();
    return data;
  }
  void release(void* data, Bytes /*bytes*/) noexcept override { (void)cudaFree(data); }
};

/// The compute stream is the host, which waits where the stream would.
ReinforcementResult run_over_nccl(const RunConfig& config) {
  check_cuda(cudaSetDevice(fake::kDevice), "cudaSetDevice");
  const MpiComm pool = pool_of_first(config.parallel.world_size);
  const StepCommunicators control = step_communicators(config, [&](const Layout& layout, bool alone, auto) {
    MpiOptions options;
    if (alone) options.world = pool.get();
    return std::make_unique<MpiCommunicator>(layout, options);
  });
  const Schedule schedule = schedule_for(config);
  NcclOptions options;
  options.watchdog = {Seconds{60}, Seconds{0.01}};
  const NcclPools pools = nccl_pools(config, schedule, control, pool.get(), options);
  const auto operators = make_cpu_operators();
  const auto lane = cuda_host_lane(nullptr);
  if (pools.training != nullptr) {
    pools.training->rehearse(true);
    rehearse(config, schedule, *operators, *pools.training, control.pool(), std::make_unique<FakeMemory>(),
             lane.get());
    pools.training->rehearse(false);
  }
  ReinforcementResult made = reinforce(config, schedule, *operators, pools.messages, control,
                                       std::make_unique<FakeMemory>(), lane.get());
  EXPECT_EQ(pools.own().take_tensor_time(), Seconds{});  // no events are kept for it
  return made;
}

TEST(NcclPools, ComputeTheNumbersOfMpi) {
  for (const QuickRun& run : quick_runs(fake::world())) {
    SCOPED_TRACE(run.name);
    const RunConfig config = config_of(run);
    const ReinforcementResult expected = run_on_cpu(config);
    const auto calls = fake::calls_made()["grouped messages"];
    const fake::OneQueue queue(run.split.zero == 0);
    const ReinforcementResult found = run_over_nccl(config);
    expect_same(found, expected);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_EQ(fake::calls_made()["grouped messages"] > calls, fake::world() > 1);
  }
}

}  // namespace
}  // namespace plumbline::reinforcement
