#include "core/launch_files/unread_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/error.hpp"
#include "core/launch_files/arguments/yaml_keys.hpp"

namespace plumbline {
namespace {

struct UnreadFile {
  std::string_view framework;
  std::array<std::string_view, 2> words;  // keys at the top of a YAML file, or words of a script; all of them
  std::string_view change;
};

constexpr const char* kKeys =
    "keys of plumbline, or a file of Megatron-LM, Megatron-Bridge, torchtitan, DeepSpeed, Accelerate or "
    "Hugging "
    "Face's Trainer";
constexpr std::string_view kOverrides =
    "it to the model and its overrides, whose names are Megatron-LM's: model: llama-3.1-8b, "
    "tensor_model_parallel_size: ...";
constexpr std::string_view kTrainingStep =
    "it to the arguments of its training step, such as --megatron-args \"--num-layers ...\": generation and "
    "scoring are not predicted";

constexpr UnreadFile kUnreadYaml[] = {
    {"Primus", {"work_group", "modules"}, kOverrides},
    {"nanotron",
     {"parallelism", "tokens"},
     "it to model, seq_length, micro_batch_size and the sizes: tp is tensor_model_parallel_size, pp "
     "pipeline_model_parallel_size, dp data_parallel_size"},
    {"llm-foundry",
     {"train_loader", "model"},
     "it to software: llm-foundry, model, seq_length, micro_batch_size (device_train_microbatch_size) and "
     "global_batch_size"},
    {"verl", {"actor_rollout_ref", "trainer"}, kTrainingStep},
    {"Axolotl",
     {"base_model", "sequence_len"},
     "it to software: deepspeed (or torchtitan for FSDP), model, seq_length, micro_batch_size and "
     "zero_stage"},
    {"MaxText",
     {"per_device_batch_size", "steps"},
     "it to software: maxtext, model, seq_length, micro_batch_size and the sizes"},
};
constexpr UnreadFile kUnreadScripts[] = {
    {"slime", {"--rollout-batch-size", "train"}, kTrainingStep},
    {"verl", {"verl.trainer", "data."}, kTrainingStep},
};

template <class Rows, class Has>
void refuse(const Rows& rows, const std::string& name, const char* kind, const Has& has) {
  for (const UnreadFile& each : rows) {
    if (!std::all_of(each.words.begin(), each.words.end(), has)) continue;
    throw InputError(fmt::format("{}: found a {} of {}, which is not read, expected {}; change {}", name,
                                 kind, each.framework, kKeys, each.change));
  }
}

}  // namespace

void refuse_unread_yaml(std::string_view text, const std::string& name) {
  refuse(kUnreadYaml, name, "configuration", [&](std::string_view key) { return has_yaml_key(text, key); });
}

void refuse_unread_script(std::string_view text, const std::string& name) {
  refuse(kUnreadScripts, name, "script",
         [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

}  // namespace plumbline
