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

}  // namespace plumbline::reinforcement
