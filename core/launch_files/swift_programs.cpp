// Commands of ms-swift, alone and over Megatron-Core.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/adapter_targets.hpp"
#include "core/launch_files/arguments/named_model.hpp"
#include "core/launch_files/megatron/megatron_yaml.hpp"
#include "core/launch_files/script_command.hpp"
#include "core/launch_files/torch/hugging_face_settings.hpp"

namespace plumbline {
namespace {

using Arguments = std::vector<LaunchArgument>;

/// Variables by which ms-swift starts torchrun, as its options.
Arguments swift_gpus(const ScriptCommand& command) {
  Arguments flags;
  for (const char* const name : {"NPROC_PER_NODE", "NNODES"})
    if (const auto found = command.environment.find(name); found != command.environment.end())
      flags.push_back({name[1] == 'P' ? "nproc_per_node" : "nnodes", {found->second}, command.name});
  return flags;
}

/// Adapters of ms-swift under Megatron-Core, with its defaults; their keys are taken out.
std::vector<LaunchSetting> swift_adapters(Arguments& keys, const std::string& tuner,
                                          const std::string& place) {
  if (tuner == "full") return {};
  const LaunchArgument* const targets = found_in(keys, "target_modules");
  std::set<std::string> names{"all-linear"};
  if (targets != nullptr) names = {targets->values.begin(), targets->values.end()};
  auto layers = adapter_targets(names);
  if (layers && !layers->exact) layers.reset();
  if (tuner != "lora" || !layers)
    throw InputError(fmt::format(
        "{}: {}: found {}, expected full, or lora on all-linear, or on names such as linear_qkv; give "
        "--megatron-args with --frozen lora",
        place, layers ? "train_type" : "target_modules",
        printable(layers ? tuner : fmt::format("{}", fmt::join(targets->values, " ")))));
  const auto given = [&](const char* name, const char* otherwise) {
    const std::string value = value_of(keys, name);
    return value.empty() ? otherwise : value;
  };
  std::vector<LaunchSetting> settings{{"frozen", "lora", place + ": train_type"},
                                      {"lora_targets", layers->key, place + ": target_modules"},
                                      {"lora_rank", given("lora_rank", "8"), place + ": lora_rank"},
                                      {"lora_alpha", given("lora_alpha", "32"), place + ": lora_alpha"}};
  std::erase_if(keys, [](const LaunchArgument& each) {
    return each.name == "lora_rank" || each.name == "lora_alpha" || each.name == "target_modules" ||
           each.name == "lora_dropout";
  });
  return settings;
}

}  // namespace

LaunchFile read_swift(const ScriptCommand& command) {
  Arguments keys = keys_of(command, command.program);
  const std::string place = command.program.empty() ? command.name : command.place(command.program.front());
  rename_key(keys, "model", "model_name_or_path");
  rename_key(keys, "attn_impl", "attn_implementation");
  rename_key(keys, "train_type", "finetuning_type");
  rename_key(keys, "tuner_type", "finetuning_type");
  rename_key(keys, "target_modules", "lora_target");
  for (LaunchArgument& each : keys)
    if (each.name == "lora_target" && each.values == std::vector<std::string>{"all-linear"})
      each.values = {"all"};
  if (found_in(keys, "finetuning_type") == nullptr) keys.push_back({"finetuning_type", {"lora"}, place});
  const std::string tuner = value_of(keys, "finetuning_type");
  if ((tuner == "lora" || tuner == "adalora") && found_in(keys, "lora_alpha") == nullptr)
    keys.push_back({"lora_alpha", {"32"}, place});
  const std::string type = value_of(keys, "torch_dtype");
  std::erase_if(keys, [](const LaunchArgument& each) { return each.name == "torch_dtype"; });
  if (found_in(keys, "bf16") == nullptr && found_in(keys, "fp16") == nullptr && type != "float32")
    keys.push_back({type == "float16" ? "fp16" : "bf16", {"true"}, place});
  if (found_in(keys, "gradient_checkpointing") == nullptr)
    keys.push_back({"gradient_checkpointing", {"true"}, place});
  if (found_in(keys, "per_device_train_batch_size") == nullptr)
    keys.push_back({"per_device_train_batch_size", {"1"}, place});
  const std::string zero = value_of(keys, "deepspeed");
  const bool offloads = zero.ends_with("_offload");
  if (zero.starts_with("zero") && zero.size() == (offloads ? 13 : 5)) {  // ms-swift's own configurations
    rename_key(keys, "deepspeed", "deepspeed.zero_optimization.stage");
    for (LaunchArgument& each : keys)
      if (each.name == "deepspeed.zero_optimization.stage") each.values = {zero.substr(4, 1)};
    keys.push_back({"deepspeed.bf16.enabled", {"auto"}, place});
    if (offloads) keys.push_back({"deepspeed.zero_optimization.offload_optimizer.device", {"cpu"}, place});
    if (offloads && zero[4] == '3')
      keys.push_back({"deepspeed.zero_optimization.offload_param.device", {"cpu"}, place});
  }
  LaunchFile file = trainer_launch(std::move(keys), command.other, command.beside);
  file.framework = "ms-swift";
  take_gpus(file, command, swift_gpus(command));
  return file;
}

LaunchFile read_swift_megatron(const ScriptCommand& command) {
  Arguments keys = keys_of(command, command.program);
  LaunchArgument model;
  std::string tuner = "full";
  for (const LaunchArgument& each : keys) {
    if (each.name == "model" || each.name == "load") model = each;
    if (each.name == "train_type" || each.name == "tuner_type") tuner = each.values.front();
  }
  const std::string place = command.program.empty() ? command.name : command.place(command.program.front());
  const std::vector<LaunchSetting> adapters = swift_adapters(keys, tuner, place);
  rename_key(keys, "max_length", "seq_length");
  constexpr std::string_view kOwn[] = {"model",
                                       "train_type",
                                       "tuner_type",
                                       "dataset",
                                       "val_dataset",
                                       "packing",
                                       "load_safetensors",
                                       "save_safetensors",
                                       "max_epochs",
                                       "dataset_num_proc",
                                       "dataloader_num_workers",
                                       "model_type",
                                       "template",
                                       "system",
                                       "save_steps",
                                       "agent_template",
                                       "add_non_thinking_prefix",
                                       "new_special_tokens",
                                       "eval_steps",
                                       "save_total_limit",
                                       "logging_dir",
                                       "cached_dataset",
                                       "cached_val_dataset",
                                       "split_dataset_ratio",
                                       "streaming",
                                       "num_train_epochs",
                                       "output_dir",
                                       "save_strategy",
                                       "padding_free",
                                       "merge_lora",
                                       "attn_impl",
                                       "freeze_aligner",
                                       "freeze_vit",
                                       "columns",
                                       "model_author",
                                       "model_name",
                                       "load_from_cache_file",
                                       "use_hf",
                                       "add_version",
                                       "report_to",
                                       "logging_steps",
                                       "torch_dtype",
                                       "warmup_fraction"};
  std::vector<LaunchRemark> own;
  std::erase_if(keys, [&](const LaunchArgument& each) {
    const bool trained = each.name == "freeze_llm" && each.values == std::vector<std::string>{"false"};
    if (!trained && std::find(std::begin(kOwn), std::end(kOwn), each.name) == std::end(kOwn)) return false;
    own.push_back({each.name, each.place, "ms-swift's, of input, names and files"});
    return true;
  });
  constexpr std::pair<const char*, const char*> kDefaults[] = {{"bf16", "true"},
                                                               {"use_distributed_optimizer", "true"},
                                                               {"micro_batch_size", "1"},
                                                               {"global_batch_size", "16"},
                                                               {"overlap_grad_reduce", "false"},
                                                               {"overlap_param_gather", "false"},
                                                               {"cross_entropy_loss_fusion", "true"},
                                                               {"recompute_granularity", "selective"}};
  add_defaults(keys, kDefaults, fmt::format("default of ms-swift in {}", place));
  LaunchFile file = megatron_keys_launch(std::move(keys), false, command.beside);
  file.framework = "ms-swift (Megatron-Core)";
  set_named_model(file, model);
  file.settings.insert(file.settings.end(), adapters.begin(), adapters.end());
  file.without_effect.insert(file.without_effect.end(), own.begin(), own.end());
  take_gpus(file, command, swift_gpus(command));
  return file;
}

}  // namespace plumbline
