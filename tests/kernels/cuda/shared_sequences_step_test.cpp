// A training step with context parallelism, with the CUDA operators run on the host. Loss and gradients equal
// those of one rank with the CPU's operators; memory is as predicted for backend cuda.
#include <fmt/format.h>
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <string>

#include "analysis/memory/memory_model.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/run/solo_communicator.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training {
namespace {

struct Case {
  CpCommType type;
  DType precision;
  bool gpt2;
  std::int64_t window;
  double attention_dropout;
  bool unfused = false;  // memory alone: shared sequences are computed as with fused attention
  bool deterministic = false;
};
// Attention on tensor cores and without them; chunks of 10 tokens begin between multiples of four.
constexpr Case kCases[] = {
    {CpCommType::p2p, DType::bf16, false, 0, 0},
    {CpCommType::p2p, DType::fp32, true, 13, 0.2, true},
    {CpCommType::all_gather, DType::fp32, false, 0, 0.2, true},
    {CpCommType::a2a, DType::bf16, false, 17, 0, true},
    {CpCommType::a2a, DType::bf16, false, 0, 0, false, true},
};

RunConfig config_of(const Case& c, int ranks) {
  RunConfig config;
  config.model = c.gpt2 ? small_gpt2() : small_qwen2();
  config.model.layers = 2;
  config.model.window.size = c.window;
  config.numerics.precision = c.precision;
  config.numerics.attention_dropout = c.attention_dropout;
  config.numerics.deterministic_mode = c.deterministic;
  config.batch = {.seq_length = 40, .micro_batch_size = 2, .global_batch_size = 2};
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.world_size = config.parallel.context = ranks;
  config.parallel.cp.comm_type = c.type;
  config.machine.backend = ranks > 1 ? Backend::cuda : Backend::cpu;
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  return config;
}

TEST(SharedSequencesOnCuda, GiveTheSingleRanksGradientsInThePredictedMemory) {
  for (const Case& c : kCases) {
    cuda::CudaOperators operators(CudaOptions{.deterministic = c.deterministic});
    SCOPED_TRACE(fmt::format("{}, {}", cp_comm_type_name(c.type), name_of(c.precision)));
    RunConfig config = config_of(c, 2);
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    ASSERT_EQ(why_unsupported(config).value_or(""), "");
    if (c.unfused) config.numerics.attention_backend = AttentionBackend::unfused;
    MpiCommunicator communicator(config.layout());
    const StepResult found = one_step(config, operators, communicator);
    if (communicator.rank() != 0) continue;
    SoloCommunicator solo;
    RunConfig alone = config_of(c, 1);
    const StepResult reference = one_step(alone, solo);
    std::map<std::string, double> rounding;
    if (c.precision != DType::fp32) {
      alone.numerics.precision = DType::fp32;
      rounding = errors_of(one_step(alone, solo).gradients, reference.gradients);
    }
    const double tolerance = c.precision != DType::fp32 ? 2e-2 : 1e-5;
    EXPECT_NEAR(found.loss / reference.loss, 1, tolerance);
    EXPECT_NEAR(found.gradient_norm / reference.gradient_norm, 1, tolerance);
    std::string worst;
    // Other operators, and separately rounded gradients of a ring's blocks, put 16-bit numbers off elsewhere.
    EXPECT_LE(largest_share(reference.gradients, found.gradients, tolerance, rounding, worst),
              c.precision == DType::fp32 ? 1 : 2)
        << worst;
    const MemoryPrediction prediction = predict_memory(config, schedule_for(config));
    for (int rank = 0; rank < 2; ++rank) {
      const MemoryBreakdown& predicted = prediction.of_rank(rank).peak;
      const MemoryBreakdown& measured = found.memory[static_cast<std::size_t>(rank)].at_peak;
      for (int i = 0; i < kCategories; ++i) {
        const auto category = static_cast<Category>(i);
        EXPECT_EQ(predicted[category].value, measured[category].value)
            << "rank " << rank << " " << name_of(category);
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::training
