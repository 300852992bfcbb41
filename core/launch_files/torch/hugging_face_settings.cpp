#include "core/launch_files/torch/hugging_face_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/config/model_config.hpp"
#include "core/launch_files/arguments/adapter_targets.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/arguments/quantized_names.hpp"
#include "core/launch_files/torch/deepspeed_settings.hpp"
#include "core/launch_files/torch/offloaded_states.hpp"
#include "core/launch_files/torch/quantized_settings.hpp"

namespace plumbline {
namespace {

bool gives(const LaunchArguments& from, const char* key) {
  const LaunchArgument* const argument = from.find(key);
  return argument != nullptr && !argument->values.empty() && argument->values.front() != "None" &&
         argument->values.front() != "[]" && argument->values.front() != "false" &&
         !argument->values.front().empty();
}

/// Words of "full_shard auto_wrap", of "q_proj,v_proj" and of a list of them.
std::set<std::string> trainer_words(const LaunchArguments& from, const char* key) {
  std::set<std::string> words;
  const LaunchArgument* const argument = from.find(key);
  if (argument == nullptr) return words;
  for (const std::string& value : argument->values) {
    std::string word;
    for (const char c : value + " ") {
      if (c != ' ' && c != ',') {
        word += c;
      } else if (!word.empty()) {
        words.insert(word);
        word.clear();
      }
    }
  }
  return words;
}

void set_trainer_precision(LaunchArguments& from) {
  const char* const bf16 = "bf16";
  const bool half = from.on("fp16");
  if (from.on(bf16) && half) from.refuse("fp16", "false with bf16");
  from.set("precision", from.on(bf16) ? "bf16" : half ? "fp16" : "fp32", half ? "fp16" : bf16);
  from.set_default("grad_dtype", "fp32");
}

void set_trainer_sizes(LaunchArguments& from) {
  const char* const model = "model_name_or_path";
  if (from.has(model)) {
    const std::string name = from.text(model, "");
    const std::string_view word = quantization_word(name);  // "Llama-3-8B" of "Llama-3-8B-AWQ"
    const std::size_t end = word.empty() ? name.size() : static_cast<std::size_t>(word.data() - name.data());
    const ModelConfig* const preset = find_preset(name.substr(0, word.empty() || end == 0 ? end : end - 1));
    if (preset != nullptr) {
      from.set("model", preset->name, model);
    } else {
      from.file().notes.push_back(
          fmt::format("{}: {} is no preset; --model takes its config.json", model, name));
    }
  }
  for (const char* key : {"cutoff_len", "max_seq_length", "max_length", "block_size"}) {
    if (!from.has(key)) continue;
    from.set("seq_length", from.text(key, ""), key);
    if (key == std::string_view("cutoff_len"))
      from.file().notes.emplace_back(
          "cutoff_len: sequences are predicted with that many tokens, as with packing");
    break;
  }
  if (!from.sets("seq_length")) {
    if (from.has("finetuning_type") || from.has("stage")) {
      from.set_default("seq_length", "2048");  // LLaMA-Factory's cutoff_len
    } else {
      from.file().notes.push_back("the file does not give a sequence length; --seq-length N does");
    }
  }
  if (!from.sets("micro_batch_size")) from.set_default("micro_batch_size", "8");
  from.file().num_microbatches = from.integer("gradient_accumulation_steps", 1);
  if (from.file().num_microbatches < 1) from.refuse("gradient_accumulation_steps", "1 or more");
}

/// LLaMA-Factory's rank and alpha, or TRL's; with use_rslora alpha is divided by the rank's root.
/// AdaLoRA (arXiv:2303.10512) starts from a rank of its own, 12 in ms-swift.
void set_trainer_adapters(LaunchArguments& from, bool peft, bool adaptive) {
  const char* const key = adaptive ? "adalora_init_r" : peft ? "lora_r" : "lora_rank";
  const std::int64_t rank = from.integer(key, adaptive ? 12 : peft ? 16 : 8);
  if (rank < 1) from.refuse(key, "1 or more");
  from.set("lora_rank", fmt::format("{}", rank), key);
  const auto given = static_cast<double>(rank);
  const double alpha = gives(from, "lora_alpha") ? from.number("lora_alpha", 0) : peft ? 32 : 2 * given;
  const bool by_root = from.on("use_rslora");
  from.set("lora_alpha", fmt::format("{}", by_root ? alpha * std::sqrt(given) : alpha),
           by_root ? "use_rslora" : "lora_alpha");
}

void set_trainer_method(LaunchArguments& from) {
  const std::string stage = from.text("stage", "sft");
  if (stage != "sft" && stage != "pt")
    from.not_modelled("stage", fmt::format("{}, expected sft or pt", stage));
  const bool peft = from.on("use_peft");
  const std::string type = peft ? "lora" : from.text("finetuning_type", from.has("stage") ? "lora" : "full");
  for (const char* idle : {"lora_r", "lora_target_modules"})
    if (!peft && from.has(idle)) from.without_effect(idle, "of adapters, which use_peft turns on");
  const bool adaptive = type == "adalora";
  if (adaptive)
    from.approximated("finetuning_type",
                      "adapters keep their first rank, without the importance of their elements");
  if (type == "lora" || adaptive) {
    from.set("frozen", "lora", peft ? "use_peft" : "finetuning_type");
    set_trainer_adapters(from, peft, adaptive);
    const char* const key = peft ? "lora_target_modules" : "lora_target";
    std::set<std::string> targets = trainer_words(from, key);
    if (targets.empty())
      targets = peft ? std::set<std::string>{"q_proj", "v_proj"} : std::set<std::string>{"all"};
    if (const auto layers = adapter_targets(targets)) {
      from.set("lora_targets", layers->key, key);
      if (!layers->exact) from.approximated(key, fmt::format("adapters are predicted on {}", layers->key));
    } else {
      from.not_modelled(key, "expected all, or names such as q_proj and gate_proj");
    }
  } else if (type != "full") {
    from.not_modelled("finetuning_type", fmt::format("{}, expected full or lora", type));
  }
}

void set_trainer_kernels(LaunchArguments& from) {
  const char* const off = "disable_gradient_checkpointing";
  const bool factory = from.has("finetuning_type") || from.has("stage");
  const char* const on = "gradient_checkpointing";
  const bool recomputes = from.has(on) ? from.on(on) : factory && !from.on(off);
  from.set("recompute_granularity", recomputes ? "full" : "none", from.has(on) ? on : factory ? off : on);
  const char* const kernel = from.has("flash_attn") ? "flash_attn" : "attn_implementation";
  const std::string attention = from.text(kernel, "auto");
  const std::set<std::string> fused = {"auto", "fa2", "fa3", "sdpa", "FlashAttention2", "flex_attention"};
  const bool unfused = attention == "disabled" || attention == "eager";
  const bool flash =
      attention == "xformers" || attention.find("flash") == 0 || attention.starts_with("kernels-community/");
  if (!unfused && !flash && !fused.contains(attention))
    from.refuse(kernel, "auto, fa2, fa3, flash_attention_2, sdpa, eager or disabled");
  from.set("attention_backend", unfused ? "unfused" : "fused", kernel);
  const std::string optimizer = from.text("optim", "adamw_torch");
  if (!set_adam_states(from, "optim", optimizer) && optimizer != "sgd")
    from.not_modelled("optim", fmt::format("{}, expected adamw_torch or sgd", optimizer));
  from.set("optimizer", optimizer == "sgd" ? "sgd" : "adam", "optim");
}

bool is_half(const std::string& type) {
  return type == "bfloat16" || type == "float16" || type == "auto";
}

void set_unsharded(LaunchArguments& from) {
  from.derive("software", "deepspeed", "models of Hugging Face in eager mode, as with DeepSpeed");
  from.derive("zero_stage", "0", "a run without DeepSpeed and FSDP");
  from.set_default("make_vocab_size_divisible_by", "1");
  if (from.setting("precision", "fp32") == "fp32") return;
  from.set("grad_dtype", "same",
           from.has("mixed_precision") ? "mixed_precision"
           : from.on("fp16")           ? "fp16"
                                       : "bf16");
  if (const std::string type = from.text("torch_dtype", "None"); is_half(type) && !from.sets("frozen")) {
    from.approximated(
        "torch_dtype",
        "weights, gradients and moments are in 16 bit, 8 bytes a parameter without DeepSpeed and "
        "FSDP; predicted are fp32 master weights and moments, 16 bytes");
    return;
  }
  from.file().notes.push_back(
      "gradients of mixed precision without DeepSpeed and FSDP are fp32; predicted are those of DeepSpeed, "
      "in "
      "the model's type");
}

/// FSDP of PyTorch as torchtitan has it.
void set_trainer_fsdp(LaunchArguments& from, const char* key) {
  from.set("software", "torchtitan", key);
  from.set_default("make_vocab_size_divisible_by", "1");
  from.set("zero_stage", "3", key);
  from.file().notes.push_back("FSDP is predicted as torchtitan's, without compilation");
  if (const std::string type = from.setting("precision", "fp32"); type != "fp32") {
    from.file().notes.push_back(fmt::format(
        "FSDP of Accelerate sums gradients in {} and keeps them in fp32; predicted are sums in fp32, whose "
        "reduce-scatter takes up to twice as long",
        type));
  }
  for (const char* strategy :
       {"fsdp_config.fsdp_reshard_after_forward", "fsdp_config.reshard_after_forward",
        "fsdp_config.fsdp_sharding_strategy", "fsdp_config.sharding_strategy", "fsdp"}) {
    const std::set<std::string> words = trainer_words(from, strategy);
    const auto one_of = [&](std::initializer_list<const char*> names) {
      return std::any_of(names.begin(), names.end(), [&](const char* name) { return words.contains(name); });
    };
    if (one_of({"false", "SHARD_GRAD_OP", "shard_grad_op", "2", "NO_SHARD", "no_shard", "_HYBRID_SHARD_ZERO2",
                "HYBRID_SHARD_ZERO2", "hybrid_shard_zero2"}))
      from.not_modelled(strategy, "expected full sharding");
    if (one_of({"offload"})) {
      from.set("offload_params", "true", strategy);
      from.set("optimizer_offload_fraction", "1", strategy);
    }
    if (one_of({"HYBRID_SHARD", "hybrid_shard"})) {
      if (from.integer("num_machines", 1) > 1) {
        from.set("num_distributed_optimizer_instances", from.text("num_machines", ""), "num_machines");
      } else {
        from.file().notes.push_back(
            "hybrid sharding: give the number of nodes as num_distributed_optimizer_instances");
      }
    }
  }
  set_fsdp_offload(from, {"fsdp_config.fsdp_offload_params", "fsdp_config.offload_params"});
  for (const char* recompute :
       {"fsdp_config.fsdp_activation_checkpointing", "fsdp_config.activation_checkpointing"})
    if (from.on(recompute)) from.set("recompute_granularity", "full", recompute);
}

/// Sizes of Accelerate's parallelism_config, as torchtitan has them.
void set_accelerate_sizes(LaunchArguments& from) {
  constexpr const char* kTensorSize = "parallelism_config.parallelism_config_tp_size";
  constexpr const char* kContextSize = "parallelism_config.parallelism_config_cp_size";
  constexpr const char* kReplicaSize = "parallelism_config.parallelism_config_dp_replicate_size";
  constexpr const char* kShardSize = "parallelism_config.parallelism_config_dp_shard_size";
  if (from.integer(kTensorSize, 1) > 1)
    from.not_modelled(kTensorSize, "tensor parallelism of Hugging Face's models");
  if (from.integer(kContextSize, 1) > 1) {
    from.set("context_parallel_size", from.text(kContextSize, ""), kContextSize);
    from.set("cp_comm_type", "all_gather", kContextSize);
  }
  if (from.integer(kReplicaSize, 1) > 1)
    from.set("num_distributed_optimizer_instances", from.text(kReplicaSize, ""), kReplicaSize);
  const std::int64_t replicas = std::max<std::int64_t>(1, from.integer(kReplicaSize, 1));
  const std::int64_t shards = std::max<std::int64_t>(1, from.integer(kShardSize, 1));
  if (replicas > (1 << 20) || shards > (1 << 20)) from.refuse(kShardSize, "a size of at most 1048576");
  from.file().replicas = replicas * shards;
  from.file().replicas_origin = from.origin(from.has(kShardSize) ? kShardSize : kReplicaSize);
}

/// The DeepSpeed configuration that `key` names.
void read_deepspeed(LaunchArguments& from, const char* key, const OtherFile& other) {
  const std::string path = from.text(key, "");
  const auto text = path.ends_with(".json") && other ? other(path) : std::nullopt;
  if (!text)
    from.refuse(key, "the path of a DeepSpeed configuration (.json), from here or from the file's folder");
  add_deepspeed(json_arguments(parse_json_object(*text, path), path), from.file());
}

/// Sharding as `distributed_type` says.
void set_accelerate_sharding(LaunchArguments& from, const OtherFile& other) {
  const char* const type = "distributed_type";
  const std::string kind = from.text(type, "NO");
  if (kind == "FSDP") {
    set_trainer_fsdp(from, type);
    set_accelerate_sizes(from);
  } else if (kind == "DEEPSPEED" && gives(from, "deepspeed_config.deepspeed_config_file")) {
    read_deepspeed(from, "deepspeed_config.deepspeed_config_file", other);
  } else if (kind == "DEEPSPEED") {
    const char* const stage = "deepspeed_config.zero_stage";
    if (from.setting("precision", "fp32") != "fp32") from.set("grad_dtype", "same", type);
    from.set("software", "deepspeed", type);
    from.set_default("make_vocab_size_divisible_by", "1");
    from.set("zero_stage", from.text(stage, "2"), stage);
    set_zero_offload(
        from, {"deepspeed_config.offload_optimizer_device", "", "deepspeed_config.offload_param_device"});
    const char* const clip = "deepspeed_config.gradient_clipping";
    if (from.has(clip)) from.set("clip_grad", from.text(clip, ""), clip);
    from.file().num_microbatches = from.integer("deepspeed_config.gradient_accumulation_steps", 1);
  } else if (kind == "MULTI_GPU" || kind == "NO") {
    set_unsharded(from);
  } else {
    from.refuse(type, "FSDP, DEEPSPEED, MULTI_GPU or NO");
  }
}

/// Ulysses of ms-swift (swift/sequence_parallel/ulysses.py), which exchanges heads.
void set_trainer_sequences(LaunchArguments& from) {
  const char* const size = "sequence_parallel_size";
  if (from.integer(size, 1) <= 1) return;
  if (from.setting("software", "") != "deepspeed")
    return from.not_modelled(size, "parallelism over sequences with FSDP");
  from.set("context_parallel_size", from.text(size, ""), size);
  from.set("cp_comm_type", "a2a", size);
}

}  // namespace

LaunchFile trainer_launch(std::vector<LaunchArgument> arguments, const OtherFile& other,
                          const BesideFile& beside, const std::string& framework) {
  LaunchFile file;
  file.framework = framework;
  file.beside = beside;
  for (LaunchArgument& each : arguments)
    if (each.name == "dtype") each.name = "torch_dtype";  // of transformers 5
  std::vector<LaunchArgument> inside;                     // a DeepSpeed configuration in place of its path
  constexpr std::string_view kInside = "deepspeed.";
  for (LaunchArgument& each : arguments) {
    if (!each.name.starts_with(kInside)) continue;
    inside.push_back(each);
    inside.back().name = each.name.substr(kInside.size());
  }
  std::erase_if(arguments, [&](const LaunchArgument& each) { return each.name.starts_with(kInside); });
  LaunchArguments from(arguments, argument_table("hugging_face_keys.txt"), file);
  from.attempt([&] { set_trainer_sizes(from); });
  from.attempt([&] { set_trainer_precision(from); });
  from.attempt([&] { set_trainer_method(from); });
  const bool nested =
      framework != "Hugging Face's Trainer" || from.has("finetuning_type") || from.has("stage");
  from.attempt([&] { set_quantized_weights(from, nested); });
  from.attempt([&] { set_trainer_kernels(from); });
  if (gives(from, "distributed_type")) {
    from.attempt([&] { set_accelerate_sharding(from, other); });
  } else if (gives(from, "deepspeed")) {
    read_deepspeed(from, "deepspeed", other);
  } else if (!inside.empty()) {
    add_deepspeed(inside, file);
  } else if (gives(from, "fsdp")) {
    set_trainer_fsdp(from, "fsdp");
  } else {
    set_unsharded(from);
  }
  from.attempt([&] { set_trainer_sequences(from); });
  const auto is_type = [](const LaunchRemark& each) { return each.name == "torch_dtype"; };
  if (from.has("torch_dtype") && std::none_of(file.approximated.begin(), file.approximated.end(), is_type))
    from.without_effect("torch_dtype", "type of computation in predictions is that of bf16, fp16 or fp32");
  if (from.has("num_processes")) from.set("world_size", from.text("num_processes", ""), "num_processes");
  if (!from.sets("world_size")) file.notes.emplace_back(kNoGpusNote);
  return file;
}

LaunchFile accelerate_launch(const std::vector<LaunchArgument>& arguments, const OtherFile& other,
                             const BesideFile& beside) {
  LaunchFile file;
  file.framework = "Accelerate";
  file.beside = beside;
  LaunchArguments from(arguments, argument_table("hugging_face_keys.txt"), file);
  if (from.has("num_processes")) from.set("world_size", from.text("num_processes", ""), "num_processes");
  const std::string precision = from.text("mixed_precision", "no");
  if (precision != "no" && precision != "bf16" && precision != "fp16")
    from.refuse("mixed_precision", "no, bf16 or fp16");
  from.set("precision", precision == "no" ? "fp32" : precision, "mixed_precision");
  from.set_default("grad_dtype", "fp32");
  set_accelerate_sharding(from, other);
  file.notes.push_back(
      "a configuration of Accelerate has no model, sequence length or batch; --model, --seq-length, --mbs "
      "and --gbs "
      "do");
  return file;
}

}  // namespace plumbline
