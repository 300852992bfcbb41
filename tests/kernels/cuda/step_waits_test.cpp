// Number of times that the host waits for the device in a training step, with the CUDA operators run on the
// host: independent of the number of micro-batches.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/schedule/vocab_passes.hpp"
#include "kernels/cuda/backend/cuda_backend.hpp"
#include "tests/bench/training/support/training_support.hpp"
#include "tests/kernels/cuda/host_runtime.hpp"

namespace plumbline::training {
namespace {

struct WaitCase {
  const char* name;
  Layout layout;  // tensor, pipeline, data
  const char* schedule = "1f1b";
  int zero = 0;
  bool distilled = false;
  const char* vocabulary = "none";
};
const WaitCase kWaitCases[] = {
    {"tensor ranks", {2, 1, 1}},
    {"stages", {1, 2, 1}},
    {"stages, input and weight gradients apart", {1, 2, 1}, "zb-h1"},
    {"copies", {1, 1, 2}},
    {"copies with cut states", {1, 1, 2}, "1f1b", 3},
    {"distillation", {2, 1, 1}, "1f1b", 0, true},
    {"vocabulary, one barrier", {1, 2, 1}, "1f1b", 0, false, "vocab-2"},
    {"vocabulary, two barriers", {1, 2, 1}, "1f1b", 0, false, "vocab-1"},
};

RunConfig config_with(const WaitCase& c, int microbatches) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 2;
  config.batch = {.seq_length = 16, .micro_batch_size = 1, .global_batch_size = microbatches * c.layout.data};
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.tensor = c.layout.tensor;
  config.parallel.pipeline = c.layout.pipeline;
  config.parallel.world_size = 2;
  config.parallel.pp.schedule = c.schedule;
  config.parallel.dp.zero_stage = c.zero;
  config.parallel.pp.vocab_parallel = parse_vocab_parallel(c.vocabulary);
  config.machine.backend = Backend::cuda;
  config.measure.steps = 1;
  config.measure.warmup_steps = 0;
  if (c.distilled) config.distillation.teacher = config.model;
  return config;
}

TEST(StepOnCuda, WaitsForTheDeviceAsOftenWithManyMicrobatchesAsWithFew) {
  cuda::CudaOperators operators(CudaOptions{});
  for (const WaitCase& c : kWaitCases) {
    SCOPED_TRACE(c.name);
    // Loading weights and looking at gradients wait, too, as often in both.
    const auto waits = [&](int microbatches) {
      const RunConfig config = config_with(c, microbatches);
      EXPECT_EQ(why_invalid(config).value_or(""), "");
      MpiCommunicator communicator(config.layout());
      const int before = test::waits_for_the_device();
      const StepResult found = one_step(config, operators, communicator);
      EXPECT_TRUE(std::isfinite(found.loss));
      EXPECT_GT(found.loss, 0);
      return test::waits_for_the_device() - before;
    };
    EXPECT_EQ(waits(1), waits(3));
  }
}

TEST(NumbersOnCuda, ComeTogetherOnceTheStreamHasBeenWaitedFor) {
  cuda::CudaOperators operators(CudaOptions{});
  std::vector<float> x(4);
  const Matrix matrix(x.data(), 1, 4, DType::fp32);
  std::vector<std::pair<double, Number>> numbers;
  const auto ask_for = [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      operators.fill(matrix, i);
      numbers.emplace_back(4.0 * i * i, operators.squared_norm(matrix));
    }
  };
  const int before = test::waits_for_the_device();
  ask_for(1, 1300);  // more than are in one page of pinned memory
  EXPECT_EQ(test::waits_for_the_device(), before);
  EXPECT_TRUE(std::isnan(numbers.front().second.value()));
  operators.synchronize();
  for (const auto& [expected, number] : numbers) ASSERT_EQ(number.value(), expected);
  // Others take the places of those that have gone.
  numbers.erase(numbers.begin(), numbers.begin() + 600);
  ask_for(2000, 2900);
  operators.synchronize();
  for (const auto& [expected, number] : numbers) ASSERT_EQ(number.value(), expected);
}

TEST(SideStreamOfCuda, HasScratchAndNumbersOfItsOwnAndNoProducts) {
  cuda::CudaOperators operators(CudaOptions{});
  std::vector<float> x(4, 1.0F);
  const Matrix matrix(x.data(), 1, 4, DType::fp32);
  const Matrix corner(x.data(), 1, 1, DType::fp32);
  Operators& any = operators;
  auto* const side = static_cast<cudaStream_t>(cuda_side_stream(any));
  ASSERT_NE(side, cuda_stream(any));
  EXPECT_EQ(cuda_side_stream(any), side);
  const Number own = operators.squared_norm(matrix);
  Number beside;
  run_on_side_stream(any, [&] {
    operators.fill(matrix, 2);
    beside = operators.squared_norm(matrix);
    EXPECT_THROW(operators.gemm({.a = matrix, .b = matrix, .c = corner, .b_transposed = true}), Error);
  });
  EXPECT_EQ(test::allocations_in(side), 1);
  operators.synchronize();
  EXPECT_EQ(own.value(), 4);
  EXPECT_TRUE(std::isnan(beside.value()));
  EXPECT_EQ(cudaStreamSynchronize(side), cudaSuccess);
  EXPECT_EQ(beside.value(), 16);
  // Back in its own stream, after an error as well.
  EXPECT_THROW(run_on_side_stream(any, [] { throw Error("stopped"); }), Error);
  const Number after = operators.squared_norm(matrix);
  operators.synchronize();
  EXPECT_EQ(after.value(), 16);
  EXPECT_EQ(test::allocations_in(side), 1);
}

}  // namespace
}  // namespace plumbline::training
