#include "core/launch_files/launch_kinds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/error.hpp"
#include "core/launch_files/arguments/yaml_keys.hpp"

namespace plumbline {
namespace {

struct UnreadKind {
  std::string_view name;
  /// Keys at the top of a file ("key"), or words of its text ("=word"): all of them are there.
  std::array<std::string_view, 3> words;
  std::string_view example;  // keys of plumbline for such a run
  std::string_view limit;    // what no key says
};

constexpr std::string_view kSharded =
    "model: llama-3.1-8b, software: torchtitan, zero_stage: 3, precision: bf16, seq_length: 4096, "
    "micro_batch_size: 1";
constexpr std::string_view kZeroRun =
    "model: llama-3.1-8b, software: deepspeed, zero_stage: 3, grad_dtype: same, precision: bf16, seq_length: "
    "4096, "
    "micro_batch_size: 1";
constexpr std::string_view kMegatronRun =
    "model: llama-3.1-8b, software: megatron-core, precision: bf16, zero_stage: 1, "
    "tensor_model_parallel_size: 2, "
    "pipeline_model_parallel_size: 2, data_parallel_size: 2, seq_length: 4096, micro_batch_size: 1";
constexpr std::string_view kLoraRun =
    "model: llama-3.1-8b, software: torchtitan, zero_stage: 3, precision: bf16, frozen: lora, lora_rank: 8, "
    "seq_length: "
    "4096, micro_batch_size: 1";
constexpr std::string_view kJax =
    "model: llama-3.1-8b, software: maxtext-save-qkv-proj, zero_stage: 3, precision: bf16, "
    "recompute_granularity: selective, seq_length: 8192, micro_batch_size: 1";
constexpr std::string_view kRollouts =
    "model: qwen2.5-7b, task: grpo, software: megatron-core, zero_stage: 1, precision: bf16, world_size: 8, "
    "num_prompts_per_step: 64, num_generations_per_prompt: 8, global_batch_size: 512, seq_length: 4096, "
    "max_new_tokens: 3072, rollout_software: vllm";

constexpr std::string_view kServing =
    "model: qwen2.5-7b, task: generate, software: vllm, precision: bf16, seq_length: 4096, max_new_tokens: "
    "1024, "
    "micro_batch_size: 8";
constexpr std::string_view kNoTraining = "it starts no training";
constexpr std::string_view kPreferences = "only fine-tuning on answers is predicted";

/// The first that fits counts.
constexpr UnreadKind kUnreadFiles[] = {
    {"nanotron", {"parallelism", "tokens", ""}, kMegatronRun, ""},
    {"llm-foundry",
     {"train_loader", "model", ""},
     "model: llama-2-7b, software: llm-foundry, zero_stage: 3, precision: bf16, seq_length: 2048, "
     "micro_batch_size: 1",
     ""},
    {"NeMo-RL", {"policy", "dpo", ""}, kMegatronRun, ""},
    {"NeMo-RL", {"policy", "sft", ""}, kMegatronRun, ""},
    {"NeMo", {"trainer", "exp_manager", ""}, kMegatronRun, ""},
    {"ArcticTraining", {"type", "deepspeed", "model"}, kZeroRun, ""},
    {"Primus (MaxText)", {"work_group", "=framework: maxtext", ""}, kJax, ""},
    {"Primus", {"work_group", "modules", ""}, kMegatronRun, "it names neither megatron nor torchtitan"},
    {"MaxText", {"per_device_batch_size", "=_parallelism", ""}, kJax, ""},
    {"MaxText", {"per_device_batch_size", "=max_target_length", ""}, kJax, ""},
    {"MaxText", {"base_config", "=per_device_batch_size", ""}, kJax, ""},
    {"GPT-NeoX", {"=pipe_parallel_size", "=model_parallel_size", ""}, kMegatronRun, ""},
    {"GPT-NeoX", {"=pipe-parallel-size", "=model-parallel-size", ""}, kMegatronRun, ""},
    {"GPT-NeoX",
     {"=\"vocab_file\"", "=\"merge_file\"", "=\"data_path\""},
     kMegatronRun,
     "it is merged with another, which has num_layers"},
    {"OLMo", {"run_name", "=tokens_per_instance", ""}, kSharded, ""},
    {"OLMo", {"device_train_microbatch_size", "=fsdp", ""}, kSharded, ""},
    {"Levanter", {"trainer", "=mp: p=f32", ""}, kSharded, ""},
    {"LitGPT", {"model_name", "=global_batch_size", "train"}, kSharded, ""},
};
constexpr UnreadKind kUnreadScripts[] = {
    {"ms-swift's inference", {"=swift infer", "", ""}, kServing, kNoTraining},
    {"ms-swift's inference", {"=swift deploy", "", ""}, kServing, kNoTraining},
    {"ms-swift's inference", {"=swift sample", "", ""}, kServing, kNoTraining},
    {"vLLM", {"=vllm serve", "", ""}, kServing, kNoTraining},
    {"ms-swift's rlhf with GRPO", {"= rlhf", "=swift", "=grpo"}, kRollouts, ""},
    {"ms-swift's rlhf", {"= rlhf", "=swift", ""}, kZeroRun, kPreferences},
    {"ms-swift's rlhf", {"=megatron rlhf", "", ""}, kMegatronRun, kPreferences},
    {"verl", {"=verl.trainer", "=data.", ""}, kRollouts, ""},
    {"OpenRLHF", {"=openrlhf.cli", "", ""}, kZeroRun, ""},
    {"NeMo-RL", {"=examples/run_", "=cluster.", ""}, kRollouts, ""},
    {"fms-fsdp", {"=main_training_", "=--model_variant", ""}, kSharded, ""},
    {"MaxText", {"=MaxText", "=base.yml", ""}, kJax, ""},
    {"torchtitan with a configuration in Python", {"=torchtitan", "=--config ", "=--module"}, kSharded, ""},
    {"NeMo 2", {"=nemo llm", "", ""}, kMegatronRun, ""},
    {"llm-foundry",
     {"=composer ", "=train.py", ""},
     "model: llama-2-7b, software: llm-foundry, zero_stage: 3, precision: bf16, seq_length: 2048, "
     "micro_batch_size: 1",
     ""},
};

template <class Rows>
void refuse(const Rows& rows, std::string_view text, const std::string& name, const char* form) {
  const auto has = [&](std::string_view word) {
    if (word.empty()) return true;
    return word[0] == '=' ? text.find(word.substr(1)) != std::string_view::npos : has_yaml_key(text, word);
  };
  for (const UnreadKind& each : rows) {
    if (!std::all_of(each.words.begin(), each.words.end(), has)) continue;
    throw InputError(fmt::format(
        "{}: found {} of {}, which is not read, expected plumbline's keys or a file of a framework that "
        "`plumbline help explain-config` lists{}{}; change it to keys such as {}",
        name, form, each.name, each.limit.empty() ? "" : ": ", each.limit, each.example));
  }
}

/// A program in Python, by the first line that says something.
bool is_python(std::string_view text, const std::string& name) {
  return name.ends_with(".py") || text.starts_with("#!/usr/bin/env python") ||
         text.starts_with("#!/usr/bin/python");
}

}  // namespace

void refuse_unread_file(std::string_view text, const std::string& name) {
  refuse(kUnreadFiles, text, name, "a configuration");
}

void refuse_unread_script(std::string_view text, const std::string& name) {
  if (is_python(text, name)) {
    throw InputError(
        fmt::format("{}: found a program in Python, which is never executed, expected a launch script or a "
                    "configuration; change it to keys such as {}",
                    name, text.find("torchtitan") != std::string_view::npos ? kSharded : kMegatronRun));
  }
  refuse(kUnreadScripts, text, name, "a script");
}

}  // namespace plumbline
