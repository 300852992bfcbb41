// Configurations of DeepSpeed, of Hugging Face's Trainer and of Accelerate as configurations.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/base/error.hpp"
#include "core/launch_files/launch_file.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::trainer_launch_test {
namespace {

using testing::HasSubstr;

constexpr const char* kZero3 =
    R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
        "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 5e8}})";

OtherFile with_zero3() {
  return [](const std::string& path) -> std::optional<std::string> {
    return path == "ds_z3.json" ? std::optional<std::string>(kZero3) : std::nullopt;
  };
}

std::map<std::string, std::string> trainer_settings(const std::string& text) {
  std::map<std::string, std::string> settings;
  const LaunchFile file = read_launch_file(text, "file", with_zero3()).value();
  file.require_modelled();
  for (const LaunchSetting& each : file.settings) settings[each.key] = each.value;
  settings["num_microbatches"] = std::to_string(file.num_microbatches);
  return settings;
}

std::string trainer_complaint(const std::string& text) {
  return test::refusal_of([&] { read_launch_file(text, "file", with_zero3()).value().require_modelled(); });
}

struct TrainerCase {
  std::string text;
  const char* key;
  const char* value;
};

TEST(DeepSpeedLaunch, KeysBecomeSettings) {
  const auto zero = [](const std::string& more) { return "{\"zero_optimization\": {" + more + "}}"; };
  const auto batch = [](const std::string& more) {
    return "{\"train_micro_batch_size_per_gpu\": 4, " + more + "}";
  };
  const TrainerCase cases[] = {
      {zero("\"stage\": 2"), "zero_stage", "2"},
      {zero("\"stage\": 2"), "software", "deepspeed"},
      {zero("\"stage\": 2"), "overlap_grad_reduce", "false"},
      {zero("\"stage\": 3"), "overlap_grad_reduce", "true"},
      {zero("\"stage\": 3, \"zero_hpz_partition_size\": 8"), "zero_hpz_partition_size", "8"},
      {zero("\"reduce_bucket_size\": 5e8"), "ddp_bucket_size", "500000000"},
      {zero("\"offload_optimizer\": {\"device\": \"none\", \"pin_memory\": true}"), "zero_stage", "0"},
      {zero("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}"), "optimizer_offload_fraction", "1"},
      {zero("\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.3}"),
       "optimizer_offload_fraction", "0.3"},
      {zero("\"stage\": 0, \"offload_optimizer\": {\"device\": \"cpu\"}"), "optimizer_offload_fraction", ""},
      {zero("\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}"), "offload_params", "true"},
      {zero("\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}"), "offload_params", ""},
      {zero("\"stage\": 2, \"cpu_offload\": true"), "optimizer_offload_fraction", "1"},
      {zero("\"stage\": 3, \"cpu_offload_param\": true"), "offload_params", "true"},
      {batch("\"bf16\": {\"enabled\": true}"), "precision", "bf16"},
      {batch("\"bf16\": {\"enabled\": true}"), "grad_dtype", "same"},
      {batch("\"bf16\": {\"enabled\": true}, \"zero_optimization\": {\"stage\": 1}"), "grad_dtype", "same"},
      {batch("\"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"bf16\"}"), "grad_dtype",
       "same"},
      {batch("\"fp16\": {\"enabled\": true, \"loss_scale\": 0}"), "precision", "fp16"},
      {batch("\"fp16\": {\"enabled\": false, \"other\": 0}"), "precision", "fp32"},
      {batch("\"gradient_accumulation_steps\": 8"), "num_microbatches", "8"},
      {batch("\"train_batch_size\": 64"), "global_batch_size", "64"},
      {batch("\"gradient_clipping\": 0.5"), "clip_grad", "0.5"},
      {batch("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-5, \"betas\": [0.9, 0.95]}}"),
       "learning_rate", "1e-05"},
      {batch("\"tensor_parallel\": {\"autotp_size\": 4}"), "tensor_model_parallel_size", "4"},
      {batch("\"sequence_parallel_size\": 4"), "cp_comm_type", "a2a"},
      {batch("\"compression_training\": {\"row_pruning\": {\"shared_parameters\": {\"enabled\": false, "
             "\"schedule_offset\": 5}, \"different_groups\": {\"rp1\": {\"params\": {\"x\": 1}}}}}"),
       "micro_batch_size", "4"},
  };
  for (const TrainerCase& each : cases)
    EXPECT_EQ(trainer_settings(each.text)[each.key], each.value) << each.text;
}

TEST(TrainerLaunch, KeysBecomeSettings) {
  const std::string model = "model_name_or_path: meta-llama/Llama-3.1-8B-Instruct\n";
  const std::string zero3 = model + "deepspeed: ds_z3.json\nbf16: true\n";
  const TrainerCase cases[] = {
      {model, "model", "llama-3.1-8b"},
      {model, "software", "deepspeed"},
      {model, "zero_stage", "0"},
      {model, "precision", "fp32"},
      {model, "micro_batch_size", "8"},
      {model, "recompute_granularity", "none"},
      {model + "finetuning_type: full\n", "recompute_granularity", "full"},
      {model + "finetuning_type: full\ndisable_gradient_checkpointing: true\n", "recompute_granularity",
       "none"},
      {model + "gradient_checkpointing: true\n", "recompute_granularity", "full"},
      {model + "cutoff_len: 4096\n", "seq_length", "4096"},
      {model + "max_seq_length: 1024\n", "seq_length", "1024"},
      {model + "stage: sft\n", "seq_length", "2048"},
      {model + "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\n", "num_microbatches", "4"},
      {model + "learning_rate: 1.0e-5\n", "learning_rate", "1e-05"},
      {model + "finetuning_type: lora\nlora_rank: 16\n", "lora_rank", "16"},
      {model + "finetuning_type: lora\nlora_rank: 16\n", "lora_alpha", "32"},
      {model + "finetuning_type: lora\nlora_rank: 16\nlora_alpha: 8\n", "lora_alpha", "8"},
      {model + "finetuning_type: lora\nlora_rank: 16\nlora_alpha: 8\nuse_rslora: true\n", "lora_alpha", "32"},
      {model + "finetuning_type: lora\nlora_target: q_proj,k_proj,v_proj\n", "lora_targets", "qkv"},
      {model + "finetuning_type: lora\nquantization_bit: 4\n", "frozen_weights", "nf4_double"},
      {model + "finetuning_type: lora\nquantization_bit: 4\ndouble_quantization: false\n", "frozen_weights",
       "nf4"},
      {model + "finetuning_type: lora\nquant_bits: 8\nquant_method: bnb\n", "frozen_weights", "int8"},
      {model + "use_peft: true\nload_in_4bit: true\n", "frozen_weights", "nf4"},
      {model + "use_peft: true\nload_in_4bit: true\nuse_bnb_nested_quant: true\n", "frozen_weights",
       "nf4_double"},
      {model + "use_peft: true\nlora_r: 4\nlora_target_modules: [q_proj]\n", "lora_rank", "4"},
      {model + "use_peft: true\n", "lora_alpha", "32"},
      {model + "lora_r: 4\n", "lora_rank", ""},
      {"model_name_or_path: a/Meta-Llama-3-8B-AWQ\nfinetuning_type: lora\n", "frozen_weights", "int4"},
      {"model_name_or_path: a/Meta-Llama-3-8B-AWQ\nfinetuning_type: lora\n", "model", "llama-3-8b"},
      {model + "optim: adamw_8bit\n", "exp_avg_sq_dtype", "int8"},
      {model + "optim: paged_adamw_32bit\n", "exp_avg_sq_dtype", ""},
      {model + "flash_attn: disabled\n", "attention_backend", "unfused"},
      {zero3, "zero_stage", "3"},
      {zero3, "precision", "bf16"},
      {zero3, "grad_dtype", "same"},
      {zero3, "ddp_bucket_size", "500000000"},
      {model + "deepspeed:\n  zero_optimization: {stage: 2}\n", "zero_stage", "2"},
      {model + "fsdp: full_shard auto_wrap\n", "software", "torchtitan"},
  };
  for (const TrainerCase& each : cases)
    EXPECT_EQ(trainer_settings(each.text)[each.key], each.value) << each.text;
}

TEST(TrainerLaunch, TypesBesideQuantizedWeightsAreNoted) {
  const auto notes = [](const std::string& text) { return read_launch_file(text, "file", {}).value().notes; };
  const std::string quantized = "model_name_or_path: x/y\nuse_peft: true\nload_in_4bit: true\n";
  EXPECT_THAT(notes(quantized), testing::Contains(HasSubstr("prepare_model_for_kbit_training")));
  EXPECT_THAT(notes("model_name_or_path: x/y\nuse_peft: true\n"),
              testing::Not(testing::Contains(HasSubstr("prepare_model_for_kbit_training"))));
}

TEST(AccelerateLaunch, KeysBecomeSettings) {
  const std::string fsdp = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 16\n";
  const std::string deepspeed = "distributed_type: DEEPSPEED\nnum_processes: 8\n";
  const TrainerCase cases[] = {
      {fsdp, "world_size", "16"},
      {fsdp, "software", "torchtitan"},
      {fsdp, "precision", "fp32"},
      {fsdp + "mixed_precision: bf16\n", "precision", "bf16"},
      {fsdp + "mixed_precision: 'no'\n", "precision", "fp32"},
      {fsdp + "fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_offload_params: false\n",
       "zero_stage", "3"},
      {fsdp + "num_machines: 2\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n",
       "num_distributed_optimizer_instances", "2"},
      {fsdp + "fsdp_config:\n  fsdp_activation_checkpointing: true\n", "recompute_granularity", "full"},
      {deepspeed + "deepspeed_config:\n  zero_stage: 1\n  gradient_accumulation_steps: 2\n", "zero_stage",
       "1"},
      {deepspeed + "deepspeed_config:\n  zero_stage: 1\n  gradient_accumulation_steps: 2\n",
       "num_microbatches", "2"},
      {deepspeed + "deepspeed_config:\n  deepspeed_config_file: ds_z3.json\n", "zero_stage", "3"},
      {"distributed_type: MULTI_GPU\nnum_processes: 8\n", "zero_stage", "0"},
      {fsdp + "fsdp_config:\n  fsdp_offload_params: true\n", "offload_params", "true"},
      {fsdp + "fsdp_config:\n  fsdp_offload_params: true\n", "optimizer_offload_fraction", "1"},
      {"model_name_or_path: x/y\nfsdp: full_shard offload\n", "offload_params", "true"},
      {deepspeed + "deepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: cpu\n",
       "optimizer_offload_fraction", "1"},
      {deepspeed + "deepspeed_config:\n  zero_stage: 3\n  offload_param_device: cpu\n", "offload_params",
       "true"},
  };
  for (const TrainerCase& each : cases)
    EXPECT_EQ(trainer_settings(each.text)[each.key], each.value) << each.text;
}

TEST(TrainerLaunch, RefusesWithPlaceAndKey) {
  const std::string model = "model_name_or_path: x/y\n";
  const std::string fsdp = "distributed_type: FSDP\nfsdp_config:\n  ";
  const std::string zero = R"({"zero_optimization": {"stage": )";
  struct Case {
    std::string text;
    const char* words;
  };
  const Case cases[] = {
      {zero + "4}}", "zero_optimization.stage: found \"4\", expected 0 to 3"},
      {zero + "2, \"offload_optimizer\": {\"device\": \"nvme\"}}}", "not modelled: states on disks"},
      {zero + "2, \"offload_optimizer\": {\"device\": \"gpu\"}}}", "expected none, cpu or nvme"},
      {zero + "3, \"zero_quantized_weights\": true}}", "quantized messages"},
      {zero + "3, \"stage4\": true}}", "unknown to DeepSpeed's table"},
      {zero + "3", "file: not valid JSON"},
      {R"({"train_batch_size": 4, "bf16": {"enabled": true}, "fp16": {"enabled": true}})", "false with bf16"},
      {model + "bf16: true\nfp16: true\n", "file:3: fp16: found \"true\", expected false with bf16"},
      {model + "stage: dpo\n", "file:2: stage: not modelled: dpo"},
      {model + "finetuning_type: freeze\n", "expected full or lora"},
      {model + "finetuning_type: llamapro\nllamapro_num_new_blocks: 4\n",
       "finetuning_type: not modelled: llamapro"},
      {model + "lisa_activated_layers: 2\n", "lisa_activated_layers: not modelled"},
      {model + "fsdp: full_shard\nsequence_parallel_size: 2\n", "parallelism over sequences with FSDP"},
      {model + "finetuning_type: lora\nlora_rank: 0\n", "file:3: lora_rank: found \"0\", expected 1 or more"},
      {model + "quantization_bit: 4\n", "quantized weights without adapters"},
      {model + "finetuning_type: lora\nquantization_bit: 3\n",
       "quantized weights of 3 bits, expected 4 or 8"},
      {model + "finetuning_type: lora\nquantization_bit: 4\nquantization_method: hqq\n",
       "quantization_method: not modelled: quantized weights of hqq, expected bnb"},
      {model + "deepspeed: none.json\n", "deepspeed: found \"none.json\", expected the path"},
      {model + "deepspeed: /etc/passwd\n", "expected the path"},
      {model + "optim: galore_adamw\n", "not modelled: galore_adamw"},
      {model + "tensor_model_parallel_size: 2\n", "not modelled: Megatron-Core under LLaMA-Factory"},
      {model + "use_unsloth: true\n", "not modelled: kernels of their own"},
      {model + "per_device_train_batch_sizes: 1\n", "the nearest known one is per_device_train_batch_size"},
      {model + "a: [\n", "not valid YAML"},
      {model + "a: &a {b: *a}\n", "file"},
      {fsdp + "fsdp_sharding_strategy: SHARD_GRAD_OP\n", "expected full sharding"},
      {"distributed_type: MEGATRON_LM\n", "expected FSDP, DEEPSPEED"},
      {"distributed_type: FSDP\nmixed_precision: fp8\n", "expected no, bf16 or fp16"},
  };
  for (const Case& each : cases) {
    const std::string complaint = trainer_complaint(each.text);
    EXPECT_THAT(complaint, HasSubstr(each.words)) << each.text;
    EXPECT_EQ(std::count(complaint.begin(), complaint.end(), '\n'), 0) << complaint;
  }
}

TEST(TrainerLaunch, NamesAModelWithoutPreset) {
  const LaunchFile file = read_launch_file("model_name_or_path: x/y\n", "file").value();
  EXPECT_THAT(file.notes.front(), HasSubstr("x/y is no preset"));
}

/// Sizes of Accelerate's parallelism_config.
TEST(TrainerLaunch, SizesOfAccelerate) {
  const std::string fsdp = "distributed_type: FSDP\nmixed_precision: bf16\nparallelism_config:\n";
  const auto size = [](const char* name, int value) {
    return fmt::format("  parallelism_config_{}_size: {}\n", name, value);
  };
  const LaunchFile ones = read_launch_file(fsdp + size("tp", 1) + size("cp", 1), "acc.yaml").value();
  EXPECT_TRUE(ones.refused.empty());
  EXPECT_THAT(fmt::format("{}", fmt::join(ones.notes, "; ")), HasSubstr("sums gradients in bf16"));
  const LaunchFile sizes =
      read_launch_file(fsdp + size("cp", 4) + size("dp_replicate", 2) + size("dp_shard", 3), "acc.yaml")
          .value();
  EXPECT_TRUE(sizes.refused.empty());
  EXPECT_EQ(sizes.replicas, 6);
  std::map<std::string, std::string> keys;
  for (const LaunchSetting& each : sizes.settings) keys[each.key] = each.value;
  EXPECT_EQ(keys["context_parallel_size"], "4");
  EXPECT_EQ(keys["num_distributed_optimizer_instances"], "2");
  const LaunchFile tensor = read_launch_file(fsdp + size("tp", 2), "acc.yaml").value();
  EXPECT_EQ(tensor.refused.size(), 1u);
}

/// "auto" is the trainer's precision; a configuration alone has none.
TEST(TrainerLaunch, AutomaticPrecisionIsNamed) {
  const LaunchFile file =
      read_launch_file(R"({"train_batch_size": 8, "bf16": {"enabled": "auto"}})", "ds.json").value();
  for (const LaunchSetting& each : file.settings) EXPECT_NE(each.key, "precision");
  EXPECT_THAT(file.notes.front(), HasSubstr("is auto"));
}

}  // namespace
}  // namespace plumbline::trainer_launch_test
