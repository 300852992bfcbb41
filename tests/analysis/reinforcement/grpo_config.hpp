// The step of GRPO that tests change.
#pragma once

#include "core/config_text/load_config.hpp"

namespace plumbline::test {

/// Qwen2.5 7B on 8 H100 with vLLM, 128 responses a step in two updates; `changes` come last.
inline RunConfig grpo_config(const Overrides& changes) {
  Overrides all = {{"model", "qwen2.5-7b", ""},
                   {"task", "grpo", ""},
                   {"hardware", "h100-sxm-80gb", ""},
                   {"software", "megatron-core", ""},
                   {"world_size", "8", ""},
                   {"tensor_model_parallel_size", "2", ""},
                   {"zero_stage", "1", ""},
                   {"seq_length", "2048", ""},
                   {"prompt_length", "512", ""},
                   {"max_new_tokens", "1536", ""},
                   {"global_batch_size", "64", ""},
                   {"num_prompts_per_step", "16", ""},
                   {"num_generations_per_prompt", "8", ""},
                   {"response_length_mean", "800", ""},
                   {"response_length_sigma", "0.5", ""},
                   {"rollout_software", "vllm", ""}};
  for (const auto& change : changes) all.push_back(change);
  return load_run_config("", all);
}

}  // namespace plumbline::test
