#include "core/launch_files/torch/automodel_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/one_line.hpp"
#include "core/config/model_config.hpp"
#include "core/launch_files/arguments/adapter_targets.hpp"
#include "core/launch_files/arguments/key_names.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/arguments/named_model.hpp"
#include "core/launch_files/arguments/quantized_names.hpp"
#include "core/launch_files/arguments/references.hpp"
#include "core/launch_files/arguments/yaml_keys.hpp"

namespace plumbline {
namespace {

constexpr std::int64_t kMostSize = 1 << 20;

std::string last_name(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

/// A size of `distributed`; none and null are 1.
std::int64_t automodel_size(const LaunchArguments& from, const std::string& name) {
  const std::string text = from.text(name, "None");
  if (text == "None" || text == "none") return 1;
  const std::int64_t size = from.integer(name, 1);
  if (size < 1 || size > kMostSize) from.refuse(name, fmt::format("none, or 1 to {}", kMostSize));
  return size;
}

const ModelConfig* set_automodel_model(LaunchArguments& from) {
  const std::string kind = last_name(from.text("model._target_", "from_pretrained"));
  const std::string family = from.text("model._target_", "NeMoAutoModelForCausalLM.");
  if (family.find("CausalLM") == std::string::npos && kind != "build_gpt2_model")
    from.not_modelled("model._target_", fmt::format("{}, expected a language model", printable(kind)));
  const std::string recipe = last_name(from.text(from.has("recipe") ? "recipe" : "recipe._target_", ""));
  if (!recipe.empty() && !recipe.ends_with("NextTokenPrediction"))
    from.not_modelled(from.has("recipe") ? "recipe" : "recipe._target_",
                      "expected a recipe for next-token prediction");
  for (const char* key : {"model.pretrained_model_name_or_path", "model.config.pretrained_model_name_or_path",
                          "model.config.name_or_path"}) {
    if (!from.has(key)) continue;
    const std::string name = from.text(key, "");
    if (const std::string_view word = lossy_quantization_word(name); !word.empty())
      from.not_modelled(key, fmt::format("quantized weights, as {} in its name says", word));
    const ModelConfig* preset = find_preset(name);
    if (preset == nullptr) preset = preset_of_name(name);
    if (preset != nullptr) {
      from.set("model", preset->name, key);
      return preset;
    }
    from.file().notes.push_back(
        fmt::format("{}: {} is no preset; --model takes its config.json", key, printable(name)));
    return nullptr;
  }
  return nullptr;
}

/// Weights in bf16 have moments in bf16; with those in fp32 FSDP2 is torchtitan's.
void set_automodel_types(LaunchArguments& from, bool experts) {
  const char* const key = from.has("model.dtype") ? "model.dtype" : "model.torch_dtype";
  const std::string type = last_name(from.text(key, "auto"));
  const bool wide = type == "float32" || type == "fp32";
  if (!wide && type != "bf16" && type != "bfloat16" && type != "auto")
    from.refuse(key, "auto, bf16 or float32");
  from.set("precision", "bf16", key);
  if (wide) from.set("grad_dtype", "fp32", key);
  from.set("software", !wide ? "nemo-automodel" : experts ? "torchtitan-2025" : "torchtitan", key);
  from.set_default("make_vocab_size_divisible_by", "1");
  for (const char* compiled : {"compile.enabled", "distributed.enable_compile"})
    if (from.on(compiled)) from.approximated(compiled, "layers are predicted without compilation");
  const char* const loss = "loss_fn._target_";
  const std::string name = last_name(from.text(loss, "MaskedCrossEntropy"));
  if (name != "MaskedCrossEntropy" && name != "CrossEntropyLoss")
    from.not_modelled(loss, fmt::format("{}, expected MaskedCrossEntropy", printable(name)));
  const char* const optimizer = "optimizer._target_";
  const std::string update = last_name(from.text(optimizer, "Adam"));
  if (update != "Adam" && update != "AdamW")
    from.not_modelled(optimizer, fmt::format("{}, expected Adam or AdamW", printable(update)));
  from.set("optimizer", "adam", optimizer);
  if (!from.sets("clip_grad")) from.set_default("clip_grad", "1");
}

void set_automodel_ranks(LaunchArguments& from, bool experts) {
  const std::string strategy = from.text("distributed.strategy", "fsdp2");
  if (strategy != "fsdp2")
    from.not_modelled("distributed.strategy", fmt::format("{}, expected fsdp2", printable(strategy)));
  from.set("zero_stage", "3", "distributed.strategy");
  const std::pair<const char*, const char*> sizes[] = {
      {"distributed.tp_size", "tensor_model_parallel_size"},
      {"distributed.pp_size", "pipeline_model_parallel_size"},
      {"distributed.cp_size", "context_parallel_size"},
      {"distributed.dp_replicate_size", "num_distributed_optimizer_instances"}};
  for (const auto& [name, key] : sizes)
    if (automodel_size(from, name) > 1) from.set(key, from.text(name, ""), name);
  if (automodel_size(from, "distributed.tp_size") > 1)
    from.set("sequence_parallel", from.on("distributed.sequence_parallel") ? "true" : "false",
             "distributed.sequence_parallel");
  if (automodel_size(from, "distributed.cp_size") > 1) from.set_default("cp_comm_type", "all_gather");
  if (experts && automodel_size(from, "distributed.ep_size") > 1) {
    from.set("expert_model_parallel_size", from.text("distributed.ep_size", ""), "distributed.ep_size");
    from.set_default("expert_tensor_parallel_size", "1");
    const char* const dispatcher = "model.backend.dispatcher";
    const std::string kind = from.text(dispatcher, "deepep");
    const bool fused = kind == "deepep" || kind == "hybridep" || kind == "uccl_ep";
    if (!fused && kind != "torch") from.not_modelled(dispatcher, fmt::format("{}", printable(kind)));
    from.set("moe_token_dispatcher_type", fused ? "flex" : "alltoall", dispatcher);
  }
  if (automodel_size(from, "distributed.dp_size") > 1)
    from.set("data_parallel_size", from.text("distributed.dp_size", ""), "distributed.dp_size");
  if (from.has("distributed.reshard_after_forward") && !from.on("distributed.reshard_after_forward"))
    from.not_modelled("distributed.reshard_after_forward", "parameters that stay gathered after forwards");
  const char* const deferred = "distributed.defer_fsdp_grad_sync";
  if (!from.has(deferred) || from.on(deferred))
    from.approximated(deferred, "whole gradients are kept over micro-batches; predicted are sharded ones");
  from.approximated("distributed.mp_policy", "gradients are summed in fp32; predicted are messages in bf16");
  from.file().notes.emplace_back(kNoGpusNote);
}

/// Files name their stages also where they have one.
void leave_out_pipeline(LaunchFile& file) {
  const auto of_pipeline = [](const LaunchRemark& each) {
    return each.name.starts_with("distributed.pipeline.") || each.name.starts_with("autopipeline.");
  };
  for (const LaunchRemark& each : file.approximated)
    if (of_pipeline(each))
      file.without_effect.push_back({each.name, each.place, "of pipelines, which pp_size turns on"});
  std::erase_if(file.approximated, of_pipeline);
}

/// Micro-batches of the pipeline, and the layers of its stages (components/distributed/pipelining).
void set_automodel_batch(LaunchArguments& from, const ModelConfig* model) {
  const char* const local = "step_scheduler.local_batch_size";
  const char* const micro = "distributed.pipeline.pp_microbatch_size";
  const std::int64_t stages = automodel_size(from, "distributed.pp_size");
  const std::int64_t sequences = from.integer(local, 1);
  const std::int64_t pass = stages > 1 ? from.integer(micro, 1) : sequences;
  if (pass < 1 || sequences < 1 || sequences % pass != 0)
    from.refuse(stages > 1 ? micro : local,
                fmt::format("a divisor of the {} sequences of a rank", sequences));
  from.set("micro_batch_size", fmt::format("{}", pass), stages > 1 ? micro : local);
  const char* const packed = "packed_sequence.packed_sequence_size";
  const char* const length = "dataset.seq_length";
  if (from.integer(packed, 0) > 0) {
    from.set("seq_length", from.text(packed, ""), packed);
    from.approximated(packed, "attention is predicted over whole packs");
  } else if (from.text(length, "None") != "None") {
    from.set("seq_length", from.text(length, ""), length);
  } else {
    from.file().notes.emplace_back("the file does not give a sequence length; --seq-length N does");
  }
  if (stages == 1) {
    leave_out_pipeline(from.file());
    return;
  }
  const char* const schedule = "distributed.pipeline.pp_schedule";
  std::string name = from.text(schedule, "1f1b");
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name != "1f1b" && name != "interleaved1f1b") from.refuse(schedule, "1f1b or interleaved1f1b");
  from.set("pipeline_schedule", name == "1f1b" ? "1f1b" : "interleaved", schedule);
  const char* const layers = "distributed.pipeline.layers_per_stage";
  if (name == "1f1b" || model == nullptr) return;
  const std::int64_t each = from.has(layers) ? from.integer(layers, 1) : 0;
  const std::int64_t chunks = each > 0 ? std::max<std::int64_t>(2, model->layers / (stages * each)) : 2;
  from.set("virtual_pipeline_chunks", fmt::format("{}", chunks), layers);
}

void set_automodel_kernels(LaunchArguments& from) {
  const char* const recompute = "distributed.activation_checkpointing";
  const std::string how = from.text(recompute, "false");
  const bool selective = how == "selective";
  const bool full = how == "full" || (!selective && from.on(recompute));
  from.set("recompute_granularity", selective ? "selective" : full ? "full" : "none", recompute);
  const char* const kernel =
      from.has("model.backend.attn") ? "model.backend.attn" : "model.attn_implementation";
  const std::string attention = from.text(kernel, "sdpa");
  const bool fused =
      attention == "te" || attention == "sdpa" || attention == "flex" || attention.starts_with("flash");
  if (!fused && attention != "eager") from.not_modelled(kernel, fmt::format("{}", printable(attention)));
  from.set("attention_backend", fused ? "fused" : "unfused", kernel);
  if (!from.has("peft._target_")) return;
  from.set("frozen", "lora", "peft._target_");
  if (!from.sets("lora_rank")) from.set_default("lora_rank", "8");
  if (!from.sets("lora_alpha")) from.set_default("lora_alpha", "32");
  const char* const targets = "peft.target_modules";
  std::set<std::string> names;
  if (const LaunchArgument* const list = from.find(targets))
    for (const std::string& each : list->values)
      names.insert(each == "*_proj" || each == "*" ? "all" : each.starts_with("*.") ? each.substr(2) : each);
  if (from.on("peft.match_all_linear") || names.empty()) names = {"all"};
  if (const auto layers = adapter_targets(names)) {
    from.set("lora_targets", layers->key, targets);
    if (!layers->exact) from.approximated(targets, fmt::format("adapters are predicted on {}", layers->key));
  } else {
    from.not_modelled(targets, "expected *_proj, or names such as *.q_proj");
  }
}

}  // namespace

std::optional<LaunchFile> automodel_launch(std::string_view text, const std::string& name,
                                           const BesideFile& beside) {
  if (!has_yaml_key(text, "step_scheduler") || !has_yaml_key(text, "model")) return std::nullopt;
  const ArgumentTable& table = argument_table("automodel_keys.txt");
  std::vector<LaunchArgument> arguments = yaml_arguments(std::string(text), name);
  resolve_references(arguments);
  KeyNames names;
  for (LaunchArgument& each : arguments)
    if (const ArgumentName* const other = table.other_name(each.name)) names.rename(each, other->flag);
  LaunchFile file;
  file.framework = "NeMo Automodel";
  file.beside = names.as_read(beside);
  LaunchArguments from(arguments, table, file);
  const ModelConfig* model = nullptr;
  from.attempt([&] { model = set_automodel_model(from); });
  const bool experts =
      model != nullptr ? static_cast<bool>(model->mixture) : from.text("distributed.ep_size", "1") != "1";
  from.attempt([&] { set_automodel_types(from, experts); });
  from.attempt([&] { set_automodel_ranks(from, experts); });
  from.attempt([&] { set_automodel_batch(from, model); });
  from.attempt([&] { set_automodel_kernels(from); });
  names.restore(file, beside);
  return file;
}

}  // namespace plumbline
