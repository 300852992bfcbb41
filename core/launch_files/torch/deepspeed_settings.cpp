#include "core/launch_files/torch/deepspeed_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/torch/offloaded_states.hpp"

namespace plumbline {
namespace {

constexpr const char* kDeepSpeedStage = "zero_optimization.stage";

/// Sections whose `enabled` is false: "compression_training.row_pruning".
std::vector<std::string> sections_off(const std::vector<LaunchArgument>& arguments) {
  constexpr std::string_view kSwitch = ".enabled";
  constexpr std::string_view kShared = ".shared_parameters";
  std::vector<std::string> off;
  for (const LaunchArgument& each : arguments) {
    if (!each.name.ends_with(kSwitch) || each.values != std::vector<std::string>{"false"}) continue;
    std::string section = each.name.substr(0, each.name.size() - kSwitch.size());
    if (section.ends_with(kShared)) section.resize(section.size() - kShared.size());
    off.push_back(section + ".");
  }
  return off;
}

/// Those that say something; the others become remarks.
std::vector<LaunchArgument> effective(const std::vector<LaunchArgument>& arguments, LaunchFile& file) {
  const std::vector<std::string> off = sections_off(arguments);
  std::vector<LaunchArgument> left;
  for (const LaunchArgument& each : arguments) {
    const bool idle = std::any_of(off.begin(), off.end(),
                                  [&](const std::string& section) { return each.name.starts_with(section); });
    if (idle) {
      file.without_effect.push_back({each.name, each.place, "its section is not enabled"});
    } else if (each.values == std::vector<std::string>{"auto"}) {
      file.without_effect.push_back({each.name, each.place, "auto: the trainer's value is taken"});
    } else {
      left.push_back(each);
    }
  }
  return left;
}

void set_deepspeed_precision(LaunchArguments& from, bool is_auto) {
  const char* const bf16 = from.has("bfloat16.enabled") ? "bfloat16.enabled" : "bf16.enabled";
  const char* const fp16 = "fp16.enabled";
  if (from.on(bf16) && from.on(fp16)) from.refuse(fp16, "false with bf16");
  if (from.on(bf16) || from.on(fp16)) {
    from.set("precision", from.on(bf16) ? "bf16" : "fp16", from.on(bf16) ? bf16 : fp16);
  } else if (is_auto && !from.sets("precision")) {
    from.file().notes.push_back(
        "bf16 or fp16 is auto: the trainer's precision counts; predicted is bf16 unless --precision is "
        "given");
  } else {
    from.set_default("precision", "fp32");
  }
  const char* const sum = "data_types.grad_accum_dtype";
  const std::string precision = from.setting("precision", is_auto ? "bf16" : "fp32");
  std::string type = from.text(sum, "None");
  if (type == "None") type = precision;
  if (type == "fp32" && type != precision) {
    from.not_modelled(sum, fmt::format("fp32; DeepSpeed's gradients are predicted in {}", precision));
  } else if (type != precision) {
    from.refuse(sum, fmt::format("the model's {}", precision));
  }
  from.set("grad_dtype", type == "fp32" ? "fp32" : "same", sum);
}

void set_deepspeed_batch(LaunchArguments& from) {
  const char* const steps = "gradient_accumulation_steps";
  const char* const train = "train_batch_size";
  const bool micro = from.sets("micro_batch_size");
  if (!from.has(train) && from.has(steps)) from.file().num_microbatches = from.integer(steps, 1);
  if (!from.has(train) && !from.has(steps) && from.file().num_microbatches == 0)
    from.file().num_microbatches = 1;
  if (!micro) {
    from.file().notes.push_back(
        "the file does not give train_micro_batch_size_per_gpu; the configuration's micro_batch_size is "
        "taken "
        "(--mbs N)");
  }
}

void set_deepspeed_groups(LaunchArguments& from) {
  const char* const tensor = "tensor_parallel.autotp_size";
  if (from.integer(tensor, 0) > 1) from.set("tensor_model_parallel_size", from.text(tensor, ""), tensor);
  const char* const sequence = "sequence_parallel_size";
  if (from.integer(sequence, 1) > 1) {
    from.set("context_parallel_size", from.text(sequence, ""), sequence);
    from.set("cp_comm_type", "a2a", sequence);
  }
}

}  // namespace

void add_deepspeed(const std::vector<LaunchArgument>& arguments, LaunchFile& file) {
  LaunchArguments from(effective(arguments, file), argument_table("deepspeed_keys.txt"), file);
  from.set("software", "deepspeed", kDeepSpeedStage);
  from.set_default("make_vocab_size_divisible_by", "1");
  const std::int64_t stage = from.integer(kDeepSpeedStage, 0);
  if (stage > 3) from.refuse(kDeepSpeedStage, "0 to 3");
  from.set("zero_stage", fmt::format("{}", stage), kDeepSpeedStage);
  set_zero_offload(from,
                   {"zero_optimization.offload_optimizer.device", "zero_optimization.offload_optimizer.ratio",
                    "zero_optimization.offload_param.device"});
  const char* const old = "zero_optimization.cpu_offload";  // both, of older versions
  if (from.on(old) && stage > 0) from.set("optimizer_offload_fraction", "1", old);
  const char* const old_params = "zero_optimization.cpu_offload_param";
  if (from.on(old_params) && stage == 3) from.set("offload_params", "true", old_params);
  const char* const overlap = "zero_optimization.overlap_comm";
  const bool overlaps = from.has(overlap) ? from.on(overlap) : stage == 3;
  from.set("overlap_grad_reduce", overlaps ? "true" : "false", overlap);
  const char* const partition = "zero_optimization.zero_hpz_partition_size";
  if (from.integer(partition, 1) > 1)
    from.set("zero_hpz_partition_size", from.text(partition, ""), partition);
  const char* const optimizer = "optimizer.type";
  if (from.has(optimizer)) {
    std::string name = from.text(optimizer, "");
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name != "adam" && name != "adamw" && name != "sgd") from.refuse(optimizer, "Adam, AdamW or SGD");
    from.set("optimizer", name == "sgd" ? "sgd" : "adam", optimizer);
  }
  const bool is_auto = std::any_of(arguments.begin(), arguments.end(), [](const LaunchArgument& each) {
    const bool type =
        each.name == "bf16.enabled" || each.name == "bfloat16.enabled" || each.name == "fp16.enabled";
    return type && each.values == std::vector<std::string>{"auto"};
  });
  set_deepspeed_precision(from, is_auto);
  set_deepspeed_batch(from);
  set_deepspeed_groups(from);
}

LaunchFile deepspeed_launch(const std::vector<LaunchArgument>& arguments, const BesideFile& beside) {
  LaunchFile file;
  file.framework = "DeepSpeed";
  file.beside = beside;
  add_deepspeed(arguments, file);
  file.notes.push_back(
      "a configuration of DeepSpeed has no model, sequence length or number of GPUs; --model, --seq-length "
      "and "
      "--gpus do");
  return file;
}

}  // namespace plumbline
