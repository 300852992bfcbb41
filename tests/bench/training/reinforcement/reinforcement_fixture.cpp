#include "tests/bench/training/reinforcement/reinforcement_fixture.hpp"

#include "core/config_text/load_config.hpp"

namespace plumbline::reinforcement {

RunConfig grpo_config() {
  RunConfig config = load_run_config(fmt::format("{}/tests/golden/llama/run.yaml", PLUMBLINE_SOURCE_DIR), {});
  config.generation.task = RunTask::grpo;
  config.generation.prompt_length = 6;
  config.generation.max_new_tokens = 8;
  config.batch.seq_length = 16;
  config.batch.micro_batch_size = 1;
  config.batch.global_batch_size = 8;
  config.optimizer.kind = Optimizer::sgd;
  config.optimizer.learning_rate = 0.1;
  config.optimizer.clip_grad = 0;
  ReinforcementConfig& keys = config.reinforcement;
  keys.prompts = keys.group_size = 4;
  keys.epochs = 2;
  keys.rollout.placement = RolloutPlacement::resident;
  return config;
}

void expect_near(std::span<const double> found, const std::vector<double>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << what << i;
}

std::vector<Split> splits(int ranks) {
  if (ranks == 1) return {{{1, 1, 1}, {1, 1, 1}, 0}};
  if (ranks == 2) {
    return {{{2, 1, 1}, {2, 1, 1}, 0}, {{1, 2, 1}, {1, 2, 1}, 0}, {{1, 1, 2}, {2, 1, 1}, 0},
            {{1, 1, 2}, {1, 1, 2}, 1}, {{1, 1, 2}, {1, 2, 1}, 3}, {{1, 2, 1}, {1, 1, 2}, 0}};
  }
  return {{{2, 2, 1}, {1, 1, 4}, 0},
          {{1, 2, 2}, {4, 1, 1}, 3},
          {{2, 1, 2}, {2, 2, 1}, 3},
          {{1, 1, 4}, {1, 2, 2}, 1}};
}

std::vector<Split> pools(int ranks) {
  if (ranks == 1) return {};
  if (ranks == 2) return {{{1, 1, 1}, {1, 1, 1}, 0}};
  return {{{2, 1, 1}, {1, 2, 1}, 0}, {{1, 2, 1}, {2, 1, 1}, 0}, {{1, 1, 2}, {1, 1, 2}, 3}};
}

RunConfig split_config(const Split& split) {
  RunConfig config = grpo_config();
  training::set_layout(config, split.training);
  config.parallel.sequence_parallel = split.training.tensor > 1;
  config.parallel.dp.zero_stage = split.zero;
  config.reinforcement.rollout.tensor = split.rollout.tensor;
  config.reinforcement.rollout.pipeline = split.rollout.pipeline;
  if (split.training.world() < training::world_ranks()) {
    config.reinforcement.rollout.placement = RolloutPlacement::split;
    config.reinforcement.rollout.world = split.rollout.world();
  }
  return config;
}

std::string name_of(const Split& split) {
  return fmt::format("tp{} pp{} dp{} zero {} from tp{} pp{}", split.training.tensor, split.training.pipeline,
                     split.training.data, split.zero, split.rollout.tensor, split.rollout.pipeline);
}

}  // namespace plumbline::reinforcement
