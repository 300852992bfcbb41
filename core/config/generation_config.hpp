// Task of a run: training from token ids, supervised fine-tuning from chats, generation of text in place of a
// training step, or reinforcement learning, whose step has both.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace plumbline {

enum class RunTask { train, sft, generate, grpo, ppo };
/// "train".
constexpr std::string_view task_name(RunTask task) {
  constexpr std::string_view kNames[] = {"train", "sft", "generate", "grpo", "ppo"};
  return kNames[static_cast<std::size_t>(task)];
}

/// Software that only generates, and is only predicted.
inline bool is_inference_engine(std::string_view software) {
  constexpr std::string_view kNames[] = {"sglang", "tensorrt-llm", "vllm", "vllm-v0", "vllm-v1"};
  return std::find(std::begin(kNames), std::end(kNames), software) != std::end(kNames);
}

/// A replica generates for micro_batch_size sequences together. Its KV cache is allocated once, for
/// seq_length tokens of each.
struct GenerationConfig {
  RunTask task = RunTask::train;
  std::int64_t prompt_length = 0;  // tokens of the longest prompt; 0: seq_length - max_new_tokens
  std::int64_t max_new_tokens = 128;
  std::int64_t pass_tokens = 0;  // that an engine prefills at once, of a rollout; 0: its default
  bool draws = false;            // ids by chance, of a rollout, not the likeliest
  bool on() const { return task == RunTask::generate; }
};

}  // namespace plumbline
