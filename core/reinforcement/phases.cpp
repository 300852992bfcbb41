#include "core/reinforcement/phases.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/config_checks.hpp"

namespace plumbline {
namespace {

/// Sequences that engines generate for at once by default: max_num_seqs of vLLM's scheduler
/// (vllm/config/scheduler.py, DEFAULT_MAX_NUM_SEQS), max_batch_size of TensorRT-LLM's builder (docs).
constexpr std::int64_t kVllmSequences = 256;
constexpr std::int64_t kTensorRtSequences = 2048;

std::int64_t sequences_at_once(const RunConfig& config) {
  const RolloutConfig& rollout = config.reinforcement.rollout;
  std::int64_t most = responses_per_replica(config);
  if (rollout.max_sequences > 0) return std::min<std::int64_t>(most, rollout.max_sequences);
  if (rollout.software.starts_with("vllm")) most = std::min(most, kVllmSequences);
  if (rollout.software == "tensorrt-llm") most = std::min(most, kTensorRtSequences);
  return most;
}

}  // namespace

RunConfig update_config(const RunConfig& config) {
  RunConfig update = config;
  update.generation = {};
  update.reinforcement = {};
  update.batch.packed_sequence = false;  // shares of packed responses are set by their lengths
  return update;
}

RunConfig update_config(const RunConfig& config, const ModelConfig& model) {
  RunConfig update = update_config(config);
  update.model = model;
  update.model.embedding.tied = false;
  update.model.embedding.scalar_head = true;
  update.model.biases.output = false;
  update.model.norms.output_rows = false;
  update.files.weights.clear();
  update.finetune = {};
  return update;
}

bool shares_reference(const RunConfig& config) {
  return config.finetune.lora();
}

RunConfig rollout_config(const RunConfig& config) {
  const RolloutConfig& rollout = config.reinforcement.rollout;
  RunConfig made = config;
  made.reinforcement = {};
  made.generation.task = RunTask::generate;
  made.generation.draws = true;
  made.generation.pass_tokens = rollout.pass_tokens;
  made.machine.software = rollout.software;
  made.parallel = {};
  made.parallel.tensor = rollout.tensor > 0 ? rollout.tensor : config.parallel.tensor;
  made.parallel.pipeline = rollout.pipeline > 0 ? rollout.pipeline : config.parallel.pipeline;
  made.parallel.world_size = rollout.world > 0 ? rollout.world : config.parallel.world_size;
  made.parallel.make_vocab_size_divisible_by = config.parallel.make_vocab_size_divisible_by;
  made.batch.micro_batch_size = sequences_at_once(config);
  made.batch.global_batch_size = made.batch.micro_batch_size * made.parallel.data();
  made.batch.packed_sequence = false;
  made.recompute = {};
  made.offload = {};
  made.finetune = {};
  made.numerics.hidden_dropout = made.numerics.attention_dropout = 0;
  made.numerics.attention_backend = AttentionBackend::fused;
  return made;
}

const ModelConfig& critic_model(const RunConfig& config) {
  return config.reinforcement.critic ? *config.reinforcement.critic : config.model;
}

std::int64_t responses_per_replica(const RunConfig& config) {
  const RolloutConfig& rollout = config.reinforcement.rollout;
  const int tensor = rollout.tensor > 0 ? rollout.tensor : config.parallel.tensor;
  const int pipeline = rollout.pipeline > 0 ? rollout.pipeline : config.parallel.pipeline;
  const int world = rollout.world > 0 ? rollout.world : config.parallel.world_size;
  const std::int64_t replicas = std::max(1, world / (tensor * pipeline));
  return (config.reinforcement.responses() + replicas - 1) / replicas;
}

std::int64_t updates(const RunConfig& config) {
  return config.reinforcement.epochs * config.reinforcement.responses() / config.batch.global_batch_size;
}

std::optional<std::string> why_phases_invalid(const RunConfig& config) {
  if (auto reason = why_reinforcement_invalid(config)) return reason;
  const auto of_part = [](const char* part, const std::optional<std::string>& reason) {
    return reason ? std::optional(fmt::format("{} ({})", *reason, part)) : std::nullopt;
  };
  if (auto reason = of_part("of the updates", why_invalid(update_config(config)))) return reason;
  if (auto reason = of_part("of the rollout", why_generation_invalid(rollout_config(config)))) return reason;
  if (const auto& reward = config.reinforcement.reward)
    if (auto reason = of_part("of the reward model", why_invalid(update_config(config, *reward))))
      return reason;
  if (!config.has_critic()) return std::nullopt;
  return of_part("of the critic", why_invalid(update_config(config, critic_model(config))));
}

}  // namespace plumbline
