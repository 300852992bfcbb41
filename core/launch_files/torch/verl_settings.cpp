#include "core/launch_files/torch/verl_settings.hpp"

#include <fmt/format.h>

#include <set>
#include <string>

#include "core/base/one_line.hpp"
#include "core/config/model_config.hpp"
#include "core/launch_files/arguments/adapter_targets.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/arguments/quantized_names.hpp"
#include "core/launch_files/torch/offloaded_states.hpp"

namespace plumbline {
namespace {

void set_verl_model(LaunchArguments& from) {
  const char* const key = "model.partial_pretrain";
  const std::string name = from.text(key, "google/gemma-1.1-7b-it");
  if (const std::string_view word = quantization_word(name); !word.empty())
    from.not_modelled(key, fmt::format("quantized weights, as {} in its name says", word));
  if (const ModelConfig* const preset = find_preset(name)) {
    from.set("model", preset->name, key);
    if (preset->mixture) from.not_modelled(key, "experts of Hugging Face's models");
  } else {
    from.file().notes.push_back(
        fmt::format("{}: {} is no preset; --model takes its config.json", key, printable(name)));
  }
  const char* const rank = "model.lora_rank";
  if (from.integer(rank, 0) == 0) return;
  from.set("frozen", "lora", rank);
  from.set("lora_rank", from.text(rank, ""), rank);
  if (!from.sets("lora_alpha")) from.set_default("lora_alpha", "16");
  const char* const targets = "model.target_modules";
  std::set<std::string> names{"all-linear"};
  if (const LaunchArgument* const list = from.find(targets))
    names = {list->values.begin(), list->values.end()};
  const auto layers = adapter_targets(names);
  if (!layers) return from.not_modelled(targets, "expected all-linear, or names such as q_proj");
  from.set("lora_targets", layers->key, targets);
  if (!layers->exact) from.approximated(targets, fmt::format("adapters are predicted on {}", layers->key));
}

/// Parameters are fp32, computation and messages of FSDP are bf16 and fp32, as torchtitan's
/// (verl/trainer/fsdp_sft_trainer.py, mp_policy).
void set_verl_step(LaunchArguments& from) {
  const char* const type = "model.fsdp_config.model_dtype";
  const std::string name = from.text(type, "fp32");
  if (name != "fp32" && name != "float32")
    from.not_modelled(type, fmt::format("{}, expected fp32", printable(name)));
  const char* const strategy = "model.strategy";
  const std::string sharding = from.text(strategy, "fsdp2");
  if (sharding != "fsdp" && sharding != "fsdp2") from.refuse(strategy, "fsdp or fsdp2");
  from.set("software", "torchtitan", strategy);
  from.set("zero_stage", "3", strategy);
  set_fsdp_offload(from, {"model.fsdp_config.cpu_offload", "model.fsdp_config.offload_params"});
  from.set("precision", "bf16", type);
  from.set_default("grad_dtype", "fp32");
  from.set_default("make_vocab_size_divisible_by", "1");
  const char* const recompute = "model.enable_gradient_checkpointing";
  const bool whole = !from.has(recompute) || from.on(recompute);
  from.set("recompute_granularity", whole ? "full" : "none", recompute);
  from.file().notes.push_back("FSDP is predicted as torchtitan's, without compilation");
}

void set_verl_sizes(LaunchArguments& from) {
  if (!from.sets("seq_length")) from.set_default("seq_length", "1024");
  if (!from.sets("global_batch_size")) from.set_default("global_batch_size", "256");
  if (!from.sets("clip_grad")) from.set_default("clip_grad", "1.0");
  // data.micro_batch_size of older scripts is read by nobody.
  const char* const each = "data.micro_batch_size_per_gpu";
  from.set("micro_batch_size", from.text(each, "4"), each);
  const char* const sequence = "ulysses_sequence_parallel_size";
  if (from.integer(sequence, 1) > 1) {
    from.set("context_parallel_size", from.text(sequence, ""), sequence);
    from.set("cp_comm_type", "all_gather", sequence);
    from.approximated(sequence, "keys and values are gathered, in place of an exchange of heads (Ulysses)");
  }
  const char* const gpus = "trainer.n_gpus_per_node";
  const std::int64_t all = from.integer(gpus, 0) * from.integer("trainer.nnodes", 1);
  if (all > 0 && all < (1 << 20)) from.set("world_size", fmt::format("{}", all), gpus);
  if (!from.sets("world_size")) from.file().notes.emplace_back(kNoGpusNote);
}

}  // namespace

LaunchFile verl_sft_launch(const std::vector<LaunchArgument>& arguments, const BesideFile& beside) {
  LaunchFile file;
  file.framework = "verl";
  file.beside = beside;
  LaunchArguments from(arguments, argument_table("verl_sft_keys.txt"), file);
  from.attempt([&] { set_verl_model(from); });
  from.attempt([&] { set_verl_step(from); });
  from.attempt([&] { set_verl_sizes(from); });
  return file;
}

}  // namespace plumbline
