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

std::vector<QuickRun> quick_runs(int ranks) {
  if (ranks == 1) {
    return {{"resident", {{1, 1, 1}, {1, 1, 1}, 0}, RolloutPlacement::resident},
            {"colocated", {{1, 1, 1}, {1, 1, 1}, 0}, RolloutPlacement::colocated, RunTask::ppo, true}};
  }
  if (ranks == 4) {
    return {{"both ways", {{2, 2, 1}, {1, 1, 4}, 0}, RolloutPlacement::colocated, RunTask::ppo},
            {"two pools of two", {{1, 1, 2}, {2, 1, 1}, 3}, RolloutPlacement::split},
            {"a step off", {{1, 2, 1}, {2, 1, 1}, 0}, RolloutPlacement::one_step_off, RunTask::ppo}};
  }
  return {{"tensor to pipeline", {{2, 1, 1}, {1, 2, 1}, 0}, RolloutPlacement::colocated, RunTask::ppo},
          {"pipeline to tensor", {{1, 2, 1}, {2, 1, 1}, 0}, RolloutPlacement::resident, RunTask::ppo, true},
          {"shards to replicas", {{1, 1, 2}, {1, 1, 2}, 3}, RolloutPlacement::colocated},
          {"optimizer's shards to tensor", {{1, 1, 2}, {2, 1, 1}, 1}, RolloutPlacement::resident},
          {"two pools", {{1, 1, 1}, {1, 1, 1}, 0}, RolloutPlacement::split, RunTask::ppo},
          {"one step off", {{1, 1, 1}, {1, 1, 1}, 0}, RolloutPlacement::one_step_off}};
}

RunConfig config_of(const QuickRun& run) {
  RunConfig config = split_config(run.split);
  config.generation.task = run.task;
  config.generation.max_new_tokens = 4;
  config.files.data.clear();
  ReinforcementConfig& keys = config.reinforcement;
  keys.rollout.placement = run.placement;
  keys.group_size = run.task == RunTask::grpo ? 2 : 1;
  keys.prompts = 4 / keys.group_size;
  keys.epochs = 1;
  keys.loss.kl_coef = 0.1;
  if (run.scored) keys.reward = config.model;
  config.batch.global_batch_size = 2;  // two updates
  config.optimizer.kind = Optimizer::adam;
  config.optimizer.learning_rate = 0.01;
  config.measure.warmup_steps = 0;
  config.measure.steps = 2;
  return config;
}

ReinforcementResult run_on_cpu(const RunConfig& config) {
  const MpiComm pool = pool_of_first(config.parallel.world_size);
  const StepCommunicators ranks = step_communicators(config, [&](const Layout& layout, bool alone, auto) {
    MpiOptions options;
    if (alone) options.world = pool.get();
    return std::make_unique<MpiCommunicator>(layout, options);
  });
  const auto operators = make_cpu_operators();
  return reinforce(config, schedule_for(config), *operators, ranks, ranks, host_memory(), nullptr);
}

void expect_same(const ReinforcementResult& found, const ReinforcementResult& expected) {
  expect_near(found.rewards, expected.rewards, 1e-5, "reward ");  // other ids' are farther away
  EXPECT_EQ(found.staleness, expected.staleness);
  EXPECT_EQ(found.refit_sent, expected.refit_sent);
  EXPECT_EQ(found.refit_copied, expected.refit_copied);
  EXPECT_EQ(found.host, expected.host);
  expect_near(found.losses, expected.losses, 1e-5, "loss ");
  expect_near(found.divergences, expected.divergences, 1e-5, "KL ");
  expect_near(found.critic_losses, expected.critic_losses, 1e-5, "critic loss ");
  if (found.losses.empty()) return;  // a rank that only generates
  EXPECT_NE(found.losses.front(), found.losses.back());
  EXPECT_NEAR(found.gradient_norm / expected.gradient_norm, 1, 1e-4);
}

}  // namespace plumbline::reinforcement
