// A recorded routing is fed back: memory and traffic of every rank are predicted to the byte, and drops to
// the token.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "analysis/predict/predict.hpp"
#include "analysis/work/routing/given_routing.hpp"
#include "analysis/work/routing/routed_traffic.hpp"
#include "bench/evaluate/record_parts.hpp"
#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/distillation_config.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::routing_file_test {
namespace {

struct Case {
  int expert;
  double factor;  // 0: no capacity
  bool padded;
  const char* schedule;
  int tensor = 1;
  int slices = 0;                                                // of an expert; 0: as tensor ranks
  int modules = 0;                                               // that predict further tokens
  enum class Taught { no, mixture, dense } taught = Taught::no;  // an MoE teacher of such a student
};
constexpr Case kCases[] = {{1, 0.7, false, "1f1b"},
                           {1, 1, true, "gpipe"},
                           {2, 0, false, "1f1b"},
                           {2, 0.7, false, "zb-h1"},
                           {2, 1, true, "1f1b"},
                           {1, 0.7, false, "1f1b", 2},
                           {1, 0, false, "1f1b", 1, 2},
                           {2, 0, false, "zb-h1", 2, 1},
                           {2, 0, false, "1f1b", 1, 0, 2},
                           {2, 0, false, "abeja", 1, 0, 0, Case::Taught::mixture},
                           {2, 0, false, "abeja", 1, 0, 0, Case::Taught::dense}};

std::vector<RoutedTokens> routing_of_nobody() {
  return {};
}

TEST(RoutingFile, SaysWhatEveryRankHeldAndSent) {
  const int ranks = world_ranks();
  for (const Case& c : kCases) {
    if (ranks % c.tensor != 0 || ranks % std::max(c.expert, c.slices) != 0) continue;
    SCOPED_TRACE(std::string(c.schedule) + " ep" + std::to_string(c.expert) + " tp" +
                 std::to_string(c.tensor));
    RunConfig config;
    config.model = small_mixture(true);
    config.model.mixture.experts = 8;
    config.model.prediction_modules = c.modules;
    config.batch.seq_length = 12;
    config.batch.global_batch_size = 8;
    config.measure.warmup_steps = 1;
    config.measure.steps = 3;
    config.optimizer.learning_rate = 0.05;  // routings differ from step to step
    config.mixture.capacity_factor = c.factor;
    config.mixture.pad_to_capacity = c.padded;
    config.parallel.pp.schedule = c.schedule;
    if (c.taught != Case::Taught::no) {
      config.parallel.pp.schedule = "1f1b";
      config.distillation.schedule = c.schedule;
      if (c.taught == Case::Taught::dense) config.model = small_qwen2();
      config.distillation.teacher = small_mixture(true);
      config.distillation.teacher->mixture.experts = 4;
      config.distillation.teacher->layers = 9;
    }
    config.parallel.expert = c.expert;
    set_layout(config, {c.tensor, 1, ranks / c.tensor});
    config.parallel.expert_tensor = c.slices;
    config.parallel.sequence_parallel = c.tensor > 1;
    config.files.save_routing = testing::TempDir() + "/plumbline_fed_back.csv";
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    MpiCommunicator communicator(config.layout());
    const auto operators = make_cpu_operators();
    const Schedule schedule = schedule_for(config);
    const TrainingResult result =
        train(config, schedule, *operators, communicator, communicator, host_memory(), {});
    communicator.barrier(Group::world);
    config.mixture.routing = config.files.save_routing;
    config.files.save_routing.clear();
    ASSERT_EQ(why_invalid(config).value_or(""), "");
    const std::vector<RoutedTokens> routing = given_routing(config);
    const Prediction predicted = predict(config, schedule, load_hardware("h100-sxm-80gb"));
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(predicted.memory.of_rank(rank).rank, rank - rank % predicted.memory.ranks_alike);
      EXPECT_EQ(predicted.memory.of_rank(rank).peak, result.memory[static_cast<std::size_t>(rank)].at_peak);
    }
    const std::vector<std::vector<RoutedTokens>> teacher = given_teacher_steps(config);
    EXPECT_EQ(teacher.empty(), c.taught == Case::Taught::no);
    const std::vector<Traffic> traffic =
        predict_traffic(config, schedule, routing, teacher.empty() ? routing_of_nobody() : teacher.back());
    EXPECT_TRUE(same(traffic[static_cast<std::size_t>(communicator.rank())], result.step_traffic));
    const PredictionReport report = report_of(predicted, config, schedule);
    if (c.factor > 0) {
      ASSERT_EQ(report.expert_load.size(), result.expert_load.size());
    }
    for (std::size_t i = 0; i < report.expert_load.size(); ++i) {
      EXPECT_EQ(report.expert_load[i].tokens, result.expert_load[i].tokens);
      EXPECT_EQ(report.expert_load[i].dropped, result.expert_load[i].dropped);
    }
    communicator.barrier(Group::world);
    if (communicator.rank() == 0) {
      std::filesystem::remove(config.mixture.routing);
      std::filesystem::remove(teacher_routing_file(config.mixture.routing));
    }
  }
}

}  // namespace
}  // namespace plumbline::training::routing_file_test
