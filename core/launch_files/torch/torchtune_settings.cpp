#include "core/launch_files/torch/torchtune_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/base/one_line.hpp"
#include "core/config/model_config.hpp"
#include "core/launch_files/arguments/adapter_targets.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/arguments/named_model.hpp"
#include "core/launch_files/arguments/references.hpp"
#include "core/launch_files/torch/offloaded_states.hpp"

namespace plumbline {
namespace {

constexpr const char* kBuilder = "model._component_";
constexpr const char* kTensor = "tensor_parallel_dim";
constexpr const char* kShards = "data_parallel_shard_dim";
constexpr const char* kReplicas = "data_parallel_replicate_dim";

/// Name behind the last dot.
std::string component(const LaunchArguments& from, const char* key) {
  const std::string path = from.text(key, "");
  return path.substr(path.rfind('.') + 1);
}

/// "torchtune.models.llama3_1.lora_llama3_1_8b": a preset, and adapters. Llama 3.3 has the shape of 3.1.
bool set_tune_model(LaunchArguments& from) {
  std::string name = component(from, kBuilder);
  // torchao's NF4Tensor, whose scales are quantized (torchtune/modules/peft/lora.py, to_nf4).
  if (name.starts_with("qlora_")) from.set("frozen_weights", "nf4_double", kBuilder);
  const std::size_t prefix = name.find("lora_");
  const bool adapters = prefix == 0 || (prefix == 1 && name[0] == 'q');
  if (adapters) name.erase(0, prefix + 5);
  constexpr std::string_view kLater = "llama3_3";
  if (name.starts_with(kLater)) name.replace(0, kLater.size(), "llama3_1");
  if (name.find("vision") != std::string::npos) from.not_modelled(kBuilder, "a vision tower of torchtune");
  for (const std::string_view end : {"_base", "_instruct"})
    if (name.ends_with(end)) name.erase(name.size() - end.size());
  const ModelConfig* const preset = preset_of_name(name);
  if (preset != nullptr && preset->mixture) from.not_modelled(kBuilder, "mixtures of experts of torchtune");
  if (preset != nullptr) {
    from.set("model", preset->name, kBuilder);
  } else {
    from.file().no_model =
        fmt::format("{}: found {}, expected the name of a preset; give --model with its config.json",
                    from.origin(kBuilder), printable(name));
  }
  return adapters;
}

/// Adapters; q_proj and v_proj alone are predicted with those of k_proj.
void set_tune_adapters(LaunchArguments& from) {
  from.set("frozen", "lora", kBuilder);
  if (!from.sets("lora_rank")) from.set_default("lora_rank", "8");
  if (!from.sets("lora_alpha")) from.set_default("lora_alpha", "16");
  const char* const modules = "model.lora_attn_modules";
  std::set<std::string> names;
  if (const LaunchArgument* const list = from.find(modules))
    names.insert(list->values.begin(), list->values.end());
  if (from.on("model.apply_lora_to_mlp")) names.insert({"gate_proj", "up_proj", "down_proj"});
  const auto layers = adapter_targets(names);
  if (!layers) from.refuse(modules, "names of q_proj, k_proj, v_proj and output_proj");
  from.set("lora_targets", layers->key, modules);
  if (!layers->exact) from.approximated(modules, fmt::format("adapters are predicted on {}", layers->key));
  if (from.on("model.apply_lora_to_output"))
    from.not_modelled("model.apply_lora_to_output", "an adapter of the output layer");
}

void set_tune_types(LaunchArguments& from) {
  const std::string type = from.text("dtype", "bf16");
  if (type != "bf16" && type != "fp32") from.refuse("dtype", "bf16 or fp32");
  const bool compiled = from.on("compile");
  from.set("precision", type, "dtype");
  if (type == "fp32") from.set("grad_dtype", "fp32", "dtype");
  const std::string software = type == "bf16" ? "torchtune" : "torchtitan";
  from.set("software", software + (compiled ? "-compile" : ""), "compile");
  from.set_default("make_vocab_size_divisible_by", "1");
  if (!from.sets("clip_grad")) from.set_default("clip_grad", "0");
}

void set_tune_sizes(LaunchArguments& from) {
  const char* const length =
      from.text("tokenizer.max_seq_len", "None") != "None" ? "tokenizer.max_seq_len" : "dataset.max_seq_len";
  if (from.text(length, "None") != "None") {
    from.set("seq_length", from.text(length, ""), length);
  } else {
    from.file().notes.emplace_back("the file does not give a sequence length; --seq-length N does");
  }
  from.file().num_microbatches = from.integer("gradient_accumulation_steps", 1);
  if (from.file().num_microbatches < 1) from.refuse("gradient_accumulation_steps", "1 or more");
  if (from.integer(kTensor, 1) > 1) {  // base_llama_tp_plan: norms are SequenceParallel
    from.set("tensor_model_parallel_size", from.text(kTensor, ""), kTensor);
    from.set("sequence_parallel", "true", kTensor);
  }
  if (from.setting("context_parallel_size", "1") != "1") {
    const char* const rotate = "context_parallel_rotate_method";
    const std::string method = from.text(rotate, "allgather");
    if (method != "allgather" && method != "alltoall") from.refuse(rotate, "allgather or alltoall");
    from.set("cp_comm_type", method == "allgather" ? "all_gather" : "p2p", rotate);
  }
  from.set("zero_stage", "3", kShards);
  set_fsdp_offload(from, {"fsdp_cpu_offload", "fsdp.cpu_offload"});
  if (from.has("fsdp_reshard_after_forward") && !from.on("fsdp_reshard_after_forward"))
    from.not_modelled("fsdp_reshard_after_forward", "parameters that stay gathered after forwards");
  const std::int64_t replicas = from.integer(kReplicas, 1);
  const std::int64_t shards = from.text(kShards, "-1") == "-1" ? 1 : from.integer(kShards, 1);
  if (replicas < 1 || replicas > (1 << 20)) from.refuse(kReplicas, "a size of at most 1048576");
  if (shards < 1 || shards > (1 << 20)) from.refuse(kShards, "-1, or a size of at most 1048576");
  if (replicas > 1) from.set("num_distributed_optimizer_instances", from.text(kReplicas, ""), kReplicas);
  from.file().replicas = replicas * shards;
  from.file().replicas_origin = from.origin(shards > 1 ? kShards : kReplicas);
  from.file().notes.emplace_back(kNoGpusNote);
}

/// ac_mode comes before enable_activation_checkpointing (recipes/full_finetune_distributed.py).
void set_tune_recomputation(LaunchArguments& from) {
  const char* const mode = "ac_mode";
  const char* const whole = "enable_activation_checkpointing";
  const std::string name = from.text(mode, "None");
  if (name == "None") {
    from.set("recompute_granularity", from.on(whole) ? "full" : "none", whole);
  } else if (name == "full") {
    from.set("recompute_granularity", "full", mode);
  } else if (name == "selective") {
    from.set("recompute_granularity", "full", mode);
    if (from.integer("ac_option", 1) > 1) {
      from.set("recompute_method", "interval", "ac_option");
      from.set("recompute_num_layers", from.text("ac_option", ""), "ac_option");
    }
  } else {
    from.refuse(mode, "full or selective");
  }
}

void set_tune_method(LaunchArguments& from) {
  const std::string optimizer = component(from, "optimizer._component_");
  const bool eight = optimizer == "AdamW8bit" || optimizer == "PagedAdamW8bit" || optimizer == "Adam8bit";
  const bool adam = optimizer == "AdamW" || optimizer == "Adam" || optimizer == "PagedAdamW" || eight;
  if (optimizer.starts_with("Paged"))
    from.approximated("optimizer._component_", "moments are predicted on the device");
  for (const char* moment : {"exp_avg_dtype", "exp_avg_sq_dtype"})
    if (eight) from.set(moment, "int8", "optimizer._component_");
  if (!adam && optimizer != "SGD" && !optimizer.empty())
    from.not_modelled("optimizer._component_",
                      fmt::format("{}, expected AdamW or SGD", printable(optimizer)));
  from.set("optimizer", optimizer == "SGD" ? "sgd" : "adam", "optimizer._component_");
  const char* const loss = "loss._component_";
  const std::string name = component(from, loss);
  if (name == "CEWithChunkedOutputLoss" || name == "LinearCrossEntropyLoss" || name.empty()) return;
  if (name == "CrossEntropyLoss") {
    from.approximated(loss, "the loss is predicted in chunks of tokens, as LinearCrossEntropyLoss");
  } else {
    from.not_modelled(loss, fmt::format("{}, expected LinearCrossEntropyLoss", printable(name)));
  }
}

}  // namespace

LaunchFile torchtune_launch(std::vector<LaunchArgument> arguments, const BesideFile& beside) {
  LaunchFile file;
  file.framework = "torchtune";
  file.beside = beside;
  resolve_references(arguments);
  LaunchArguments from(arguments, argument_table("torchtune_keys.txt"), file);
  bool adapters = false;
  from.attempt([&] { adapters = set_tune_model(from); });
  if (adapters) from.attempt([&] { set_tune_adapters(from); });
  from.attempt([&] { set_tune_types(from); });
  from.attempt([&] { set_tune_sizes(from); });
  from.attempt([&] { set_tune_recomputation(from); });
  from.attempt([&] { set_tune_method(from); });
  return file;
}

std::optional<LaunchFile> torchtune_file(std::string_view text, const std::string& name,
                                         const BesideFile& beside) {
  if (text.find("_component_: torchtune") == std::string_view::npos) return std::nullopt;
  return torchtune_launch(yaml_arguments(std::string(text), name), beside);
}

}  // namespace plumbline
