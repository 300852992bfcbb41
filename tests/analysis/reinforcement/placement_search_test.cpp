// Search over placements of a step of reinforcement learning: the best of all, each as it is predicted alone.
#include "analysis/reinforcement/placement_search.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "tests/analysis/reinforcement/grpo_config.hpp"

namespace plumbline::placement_search_test {
namespace {

RunConfig config_with(Overrides changes) {
  changes.insert(changes.begin(), {"rl_framework", "nemo-rl", ""});
  return test::grpo_config(changes);
}

ReinforcementPrediction alone(const RunConfig& config) {
  return predict_reinforcement(config, *find_hardware_preset(config.machine.hardware), step_for);
}

PlacementResult searched(const RunConfig& config, const PlacementRequest& request) {
  return search_placements(config, request, *find_hardware_preset(config.machine.hardware), step_for);
}

TEST(ReinforcementSearch, FindsTheBestOfAll) {
  const PlacementResult found =
      searched(config_with({{"gpu_memory_utilization", "0.6", ""}}),
               {.gpus = 8, .fixed = {"micro_batch_size", "gpu_memory_utilization"}, .top = 5});
  ASSERT_EQ(found.best.size(), 5U);
  Seconds best{1e9};
  std::int64_t fitting = 0;
  for (const char* placement : {"colocated", "resident", "split", "one_step_off"})
    for (const int pool : {0, 2, 4, 6})
      for (const int tensor : {1, 2, 4, 8})
        for (const int pipeline : {1, 2, 4, 8})
          for (const char* recompute : {"none", "full"})
            for (const int rollout : {1, 2, 4, 8}) {
              if (tensor * pipeline > 8 - pool) continue;
              try {
                const RunConfig config =
                    config_with({{"rollout_placement", placement, ""},
                                 {"rollout_world_size", std::to_string(pool), ""},
                                 {"world_size", std::to_string(8 - pool), ""},
                                 {"tensor_model_parallel_size", std::to_string(tensor), ""},
                                 {"pipeline_model_parallel_size", std::to_string(pipeline), ""},
                                 {"sequence_parallel", tensor > 1 ? "true" : "false", ""},

                                 {"recompute_granularity", recompute, ""},
                                 {"rollout_tensor_model_parallel_size", std::to_string(rollout), ""},
                                 {"rollout_pipeline_model_parallel_size", "1", ""},
                                 {"gpu_memory_utilization", "0.6", ""}});
                const ReinforcementPrediction made = alone(config);
                if (!made.fits) continue;
                ++fitting;
                best = std::min(best, made.step);
              } catch (const InputError&) {
                continue;
              }
            }
  EXPECT_DOUBLE_EQ(found.best.front().prediction.step.value, best.value);
  EXPECT_EQ(found.fitting, fitting);
}

TEST(ReinforcementSearch, PredictsEachAsAlone) {
  for (const char* model : {"qwen2.5-7b", "qwen3-30b-a3b"}) {
    const PlacementResult found = searched(
        config_with({{"model", model, ""}, {"world_size", "32", ""}, {"gpu_memory_utilization", "0.6", ""}}),
        {.gpus = 32, .fixed = {"micro_batch_size", "gpu_memory_utilization"}, .top = 40});
    ASSERT_GT(found.best.size(), 20U);
    ASSERT_EQ(found.of_placement.size(), 4U);
    EXPECT_EQ(found.of_placement.front().prediction.step, found.best.front().prediction.step);
    Seconds before;
    for (const PlacedStep& step : found.best) {
      const ReinforcementPrediction made = alone(step.config);
      EXPECT_DOUBLE_EQ(step.prediction.step.value, made.step.value);
      EXPECT_EQ(step.prediction.phases[made.fullest].needed, made.phases[made.fullest].needed);
      EXPECT_TRUE(made.fits);
      EXPECT_EQ(made.gpus, 32);
      EXPECT_LE(before, made.step);
      before = made.step;
    }
  }
}

TEST(ReinforcementSearch, KeepsWhatIsFixed) {
  const RunConfig config = config_with({{"rollout_placement", "one_step_off", ""},
                                        {"rollout_world_size", "8", ""},
                                        {"world_size", "8", ""},
                                        {"tensor_model_parallel_size", "2", ""},
                                        {"rollout_tensor_model_parallel_size", "2", ""}});
  const PlacementResult found =
      searched(config, {.gpus = 16,
                        .fixed = {"rollout_placement", "rollout_world_size", "tensor_model_parallel_size",
                                  "rollout_tensor_model_parallel_size"},
                        .top = 50});
  ASSERT_FALSE(found.best.empty());
  for (const PlacedStep& step : found.best) {
    EXPECT_EQ(step.config.reinforcement.rollout.placement, RolloutPlacement::one_step_off);
    EXPECT_EQ(step.config.reinforcement.rollout.world, 8);
    EXPECT_EQ(step.config.parallel.world_size, 8);
    EXPECT_EQ(step.config.parallel.tensor, 2);
    EXPECT_EQ(step.config.reinforcement.rollout.tensor, 2);
  }
}

TEST(ReinforcementSearch, StopsWhenAsked) {
  int asked = 0;
  const PlacementResult found =
      searched(config_with({}), {.gpus = 8, .stopped = [&] { return ++asked > 2; }});
  EXPECT_FALSE(found.complete);
}

}  // namespace
}  // namespace plumbline::placement_search_test
