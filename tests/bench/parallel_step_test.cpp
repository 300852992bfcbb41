// Every TP × PP × DP split of the ranks gives the loss and the gradients of one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <string>
#include <vector>

#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/solo_communicator.hpp"
#include "tests/bench/training_support.hpp"

namespace plumbline::training {
namespace {

struct Case {
  const char* model;
  DType precision;
  const char* schedule;
  double tolerance;  // of a gradient, relative to its tensor's largest entry
};

constexpr Case kCases[] = {
    {"qwen2", DType::fp32, "1f1b", 1e-5}, {"qwen2", DType::fp32, "gpipe", 1e-5},
    {"qwen2", DType::bf16, "1f1b", 2e-2}, {"gpt2", DType::fp32, "1f1b", 1e-5},
    {"gpt2", DType::bf16, "1f1b", 2e-2},
};

RunConfig config_of(const Case& c) {
  RunConfig config;
  config.model = std::string(c.model) == "qwen2" ? small_qwen2() : small_gpt2();
  config.precision = c.precision;
  config.pipeline_schedule = c.schedule;
  config.seq_length = 24;
  config.micro_batch_size = 2;
  config.global_batch_size = 32;
  config.make_vocab_size_divisible_by = 8;
  config.ddp_bucket_size = 5000;  // several buckets even here
  return config;
}

TEST(ParallelStep, EverySplitGivesTheSingleRanksGradients) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const Case& c : kCases) {
    RunConfig config = config_of(c);
    SoloCommunicator solo;
    const StepResult reference = one_step(config, solo);
    for (const Layout& layout : layouts_of(ranks)) {
      const std::string name = fmt::format("{} {} {} tp{} pp{} dp{}", c.model, name_of(c.precision),
                                           c.schedule, layout.tensor, layout.pipeline, layout.data);
      set_layout(config, layout);
      MpiCommunicator communicator(layout);
      const StepResult split = one_step(config, communicator);
      const StepResult again = one_step(config, communicator);
      EXPECT_NEAR(split.loss / reference.loss, 1, c.tolerance) << name;
      EXPECT_EQ(split.loss, again.loss) << name << ": two runs differ";
      if (communicator.rank() != 0) continue;
      std::string worst;
      const double error = largest_error(reference.gradients, split.gradients, worst);
      EXPECT_LE(error, c.tolerance) << name << ": " << worst;
      EXPECT_TRUE(split.gradients == again.gradients) << name << ": two runs differ";
      fmt::print("{}: largest error {:.2e} ({})\n", name, error, worst);
    }
  }
}

}  // namespace
}  // namespace plumbline::training
