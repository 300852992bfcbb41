// Data-parallel collectives overlapped or not, gathers from fewer ranks or all: losses, gradients and updates
// are the same, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analysis/work/traffic.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::data_overlap_step_test {
namespace {

struct Case {
  const char* schedule;
  int pipeline;
  DType precision;
  Recompute recompute = Recompute::none;
};
constexpr Case kCases[] = {
    {"1f1b", 1, DType::bf16},
    {"gpipe", 1, DType::fp32, Recompute::full},
    {"1f1b", 2, DType::fp32},
    {"zb-v", 2, DType::bf16},
};

RunConfig config_of(const Case& c, int ranks) {
  RunConfig config;
  config.model = small_qwen2();
  config.model.layers = 4;
  config.numerics.precision = c.precision;
  config.recompute.granularity = c.recompute;
  config.recompute.num_layers = 2;
  config.batch.seq_length = 8;
  config.batch.global_batch_size = 4 * ranks / c.pipeline;
  config.parallel.make_vocab_size_divisible_by = 8;
  config.parallel.dp.bucket_size = 20'000;  // several buckets even here
  config.parallel.pp.schedule = c.schedule;
  config.optimizer.learning_rate = 1e-2;
  set_layout(config, {1, c.pipeline, ranks / c.pipeline});
  return config;
}

TEST(DataParallelOverlap, ChangesNoBit) {
  const int ranks = world_ranks();
  for (const Case& c : kCases) {
    if (ranks / c.pipeline != 2) continue;
    for (int zero = 0; zero <= 3; ++zero) {
      RunConfig config = config_of(c, ranks);
      config.parallel.dp.zero_stage = zero;
      std::optional<StepResult> first;
      for (const bool reduces : {false, true}) {
        for (const bool gathers : {false, true}) {
          config.parallel.dp.overlap_grad_reduce = reduces;
          config.parallel.dp.overlap_param_gather = gathers;
          config.parallel.pp.overlap_p2p_comm = reduces != gathers;
          if (why_invalid(config)) continue;
          MpiCommunicator communicator(config.layout());
          // The third step's loss shows that the values of the second update reached all ranks.
          const StepResult result = last_step(config, 3, communicator);
          if (!first) first = result;
          const std::string name = fmt::format("{} pp{} zero{} reduces alongside {}, gathers ahead {}",
                                               c.schedule, c.pipeline, zero, reduces, gathers);
          expect_same_bits(*first, result, name);
          EXPECT_TRUE(same(result.traffic, first->traffic)) << name;
        }
      }
    }
  }
}

// Updated values that reached only one group, or a shard of another unit or rank, would show in the next
// loss.
TEST(SecondaryShards, ChangeNoBitAndMoveWhatIsPredicted) {
  const int ranks = world_ranks();
  for (const Case& c : kCases) {
    if (ranks / c.pipeline < 4) continue;
    RunConfig config = config_of(c, ranks);
    config.parallel.dp.zero_stage = 3;
    std::optional<StepResult> first;
    for (const int shards : {1, 2}) {
      for (const bool gathers : {false, true}) {
        config.parallel.dp.hpz_partition_size = shards;
        config.parallel.dp.overlap_param_gather = gathers;
        MpiCommunicator communicator(config.layout());
        const StepResult result = last_step(config, 3, communicator);
        if (!first) first = result;
        const std::string name = fmt::format("{} pp{} dp{} secondary shards {}, gathers ahead {}", c.schedule,
                                             c.pipeline, ranks / c.pipeline, shards, gathers);
        expect_same_bits(*first, result, name);
        const std::vector<Traffic> predicted = predict_traffic(config, schedule_for(config));
        EXPECT_TRUE(same(result.traffic, predicted[static_cast<std::size_t>(communicator.rank())])) << name;
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::training::data_overlap_step_test
