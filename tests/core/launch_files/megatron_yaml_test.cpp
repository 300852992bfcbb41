// YAML files of Megatron-LM and Megatron-Bridge as configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/base/error.hpp"
#include "core/launch_files/launch_file.hpp"

namespace plumbline::megatron_yaml_test {
namespace {

using testing::HasSubstr;

constexpr const char* kShape =
    "num_layers: 32\nhidden_size: 4096\nffn_hidden_size: 14336\nnum_attention_heads: 32\n"
    "group_query_attention: true\nnum_query_groups: 8\nseq_length: 4096\nmax_position_embeddings: 8192\n"
    "position_embedding_type: rope\nswiglu: true\nnormalization: RMSNorm\nadd_bias_linear: false\n"
    "untie_embeddings_and_output_weights: true\nvocab_size: 128256\nmicro_batch_size: 1\nbf16: true\n";

std::map<std::string, std::string> yaml_settings(const std::string& text) {
  std::map<std::string, std::string> settings;
  const LaunchFile file = read_launch_file(text, "run.yaml").value();
  file.require_modelled();
  for (const LaunchSetting& each : file.settings) settings[each.key] = each.value;
  return settings;
}

std::string indented(const std::string& section, std::string text) {
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos && at + 1 < text.size(); at += 3)
    text.insert(at + 1, "  ");
  return section + ":\n  " + text;
}

TEST(MegatronYaml, NamesBecomeSettings) {
  struct Case {
    std::string text;
    const char* key;
    const char* value;
  };
  const std::string flat = kShape;
  const std::string args = indented("ARGS", flat + "sequence_parallel: true\ngrad_reduce_in_bf16: true\n");
  const std::string sections =
      "language_model:\n  layernorm_epsilon: 1.e-5\n  num_moe_experts: null\nmodel_parallel:\n"
      "  tensor_model_parallel_size: 4\n  sequence_parallel: True\n  timers: null\n" +
      flat;
  const std::string bridge =
      "model:\n  _target_: a.Provider\n  tensor_model_parallel_size: 2\n"
      "train:\n  global_batch_size: 64\n  micro_batch_size: 2\n";
  const Case cases[] = {
      {flat, "software", "megatron-core"},
      {flat, "precision", "bf16"},
      {flat, "hidden_dropout", "0.1"},
      {args, "sequence_parallel", "true"},
      {args, "grad_dtype", "same"},
      {flat + "fp8_hybrid: false\n", "fp8_format", ""},
      {"DEPENDENCIES:\n  image: x\nENV_VARS:\n  A: '1'\n" + args, "seq_length", "4096"},
      {sections, "tensor_model_parallel_size", "4"},
      {bridge, "software", "megatron-bridge"},
      {bridge, "tensor_model_parallel_size", "2"},
      {bridge, "global_batch_size", "64"},
      {bridge + "ddp:\n  use_distributed_optimizer: true\n  grad_reduce_in_fp32: false\n", "zero_stage", "1"},
      {bridge + "ddp:\n  use_distributed_optimizer: true\n  grad_reduce_in_fp32: false\n", "grad_dtype",
       "same"},
      {indented("ConfigContainer", bridge), "tensor_model_parallel_size", "2"},
      {bridge + "ddp:\n  bucket_size: 40000000\n", "ddp_bucket_size", "40000000"},
      {bridge + "ddp:\n  overlap_grad_reduce: false\n", "overlap_grad_reduce", "false"},
      {bridge + "comm_overlap:\n  overlap_p2p_comm: true\n", "overlap_p2p_comm", "true"},
      {bridge + "mixed_precision: bf16_mixed\n", "precision", "bf16"},
      {bridge + "mixed_precision: bf16_with_fp8_current_scaling_mixed\n", "fp8_recipe", "tensorwise"},
      {bridge + "mixed_precision: bf16_with_mxfp8_mixed\n", "fp8_format", "e4m3"},
      {bridge + "mixed_precision: bf16_with_nvfp4_mixed\n", "fp4_format", "e2m1"},
      {bridge + "comm_overlap:\n  tp_comm_overlap: true\n", "tp_comm_overlap", "true"},
      {bridge + "dataset:\n  sequence_length: 8192\n  path: x\n", "seq_length", "8192"},
      {bridge + "logger:\n  log_interval: 1\ncheckpoint:\n  save: null\n", "micro_batch_size", "2"},
  };
  for (const Case& each : cases) EXPECT_EQ(yaml_settings(each.text)[each.key], each.value) << each.text;
  EXPECT_FALSE(yaml_settings(bridge).contains("model"));
}

/// GPTModelProvider has num_query_groups and no group_query_attention, which Megatron-LM's arguments need
/// (NVIDIA-NeMo/Megatron-Bridge@067f987d src/megatron/bridge/models/gpt_provider.py).
TEST(MegatronYaml, QueryGroupsAreReadAsEachFrameworkTakesThem) {
  const std::string no_groups = [] {
    std::string text = kShape;
    for (const char* line : {"group_query_attention: true\n", "num_query_groups: 8\n"})
      text.erase(text.find(line), std::string(line).size());
    return text;
  }();
  const auto provider = [&](const std::string& more) {
    std::string shape = no_groups + more;
    for (const char* line : {"micro_batch_size: 1\n", "bf16: true\n", "max_position_embeddings: 8192\n"})
      shape.erase(shape.find(line), std::string(line).size());
    return indented("model", shape) + "train:\n  micro_batch_size: 1\nmixed_precision:\n  bf16: true\n";
  };
  struct Case {
    std::string text;
    int key_heads;
    bool note;
  };
  const Case cases[] = {
      {provider("num_query_groups: 8\n"), 8, false},
      {indented("ConfigContainer", provider("num_query_groups: 8\n")), 8, false},
      {provider("num_query_groups: 1\n"), 1, false},
      {provider("num_query_groups: null\n"), 32, false},
      {provider(""), 32, false},
      {no_groups + "num_query_groups: 8\n", 32, true},
      {no_groups + "num_query_groups: 8\ngroup_query_attention: false\n", 32, true},
      {no_groups + "num_query_groups: 8\ngroup_query_attention: true\n", 8, false},
      {no_groups + "num_query_groups: null\n", 32, false},
      {no_groups, 32, false},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.text);
    const LaunchFile file = read_launch_file(each.text, "run.yaml").value();
    file.require_modelled();
    std::string model;
    for (const LaunchSetting& setting : file.settings)
      if (setting.key == "model") model = setting.value;
    EXPECT_THAT(model, HasSubstr("\"num_key_value_heads\":" + std::to_string(each.key_heads)));
    EXPECT_EQ(
        std::ranges::any_of(file.notes,
                            [](const std::string& note) {
                              return note.find("num_query_groups: found 8 without --group-query-attention") !=
                                         std::string::npos ||
                                     note.find("--num-query-groups: found 8 without") != std::string::npos;
                            }),
        each.note);
  }
}

/// A file that changes a recipe leaves the recipe's own defaults (Megatron-Bridge, recipes/common.py).
TEST(MegatronYaml, RecipesHaveTheirDefaults) {
  const std::string pretrain = "model:\n  tensor_model_parallel_size: 2\ntrain:\n  micro_batch_size: 2\n";
  const std::string finetune = pretrain + "checkpoint:\n  pretrained_checkpoint: /x\n";
  const struct {
    std::string text;
    const char* key;
    const char* value;
  } cases[] = {
      {pretrain, "zero_stage", "1"},
      {pretrain, "overlap_grad_reduce", "true"},
      {pretrain, "overlap_param_gather", "true"},
      {pretrain, "precision", "bf16"},
      {pretrain, "grad_dtype", "fp32"},
      {pretrain + "mixed_precision: fp16_mixed\n", "precision", "fp16"},
      {pretrain + "mixed_precision:\n  fp16: true\n  hysteresis: 4\n", "hysteresis", "4"},
      {pretrain + "mixed_precision:\n  bf16: true\n  hysteresis: 4\n", "hysteresis", ""},
      {pretrain + "mixed_precision:\n  fp16: true\n  loss_scale: 8\n  hysteresis: 4\n", "hysteresis", ""},
      {pretrain + "mixed_precision:\n  dtype: bf16\n", "precision", "bf16"},
      {pretrain + "ddp:\n  overlap_grad_reduce: false\n", "overlap_grad_reduce", "false"},
      {pretrain + "comm_overlap:\n  align_param_gather: false\n", "align_param_gather", "false"},
      {pretrain + "ddp:\n  overlap_param_gather: false\n", "overlap_param_gather", "false"},
      {pretrain + "ddp:\n  use_distributed_optimizer: false\n", "zero_stage", ""},
      {pretrain + "ddp:\n  use_megatron_fsdp: true\n", "zero_stage", "3"},
      {pretrain, "frozen", ""},
      {finetune, "zero_stage", "1"},
      {finetune, "overlap_grad_reduce", "false"},
      {finetune, "overlap_param_gather", "false"},
      {finetune + "peft:\n  dim: 8\n  alpha: 16\n", "lora_rank", "8"},
      {finetune + "peft:\n  dim: 8\n  alpha: 16\n", "lora_alpha", "16"},
      {finetune + "peft:\n  dim: 8\n", "frozen", "lora"},
      {finetune + "peft:\n  dim: 8\n", "lora_targets", "all"},
      {finetune + "peft:\n  target_modules: [linear_proj, linear_qkv]\n", "lora_targets", "attention"},
      {finetune + "peft:\n  dim: 8\n  _target_: megatron.bridge.peft.canonical_lora.CanonicalLoRA\n",
       "frozen", "canonical_lora"},
      {finetune + "peft:\n  _target_: megatron.bridge.peft.canonical_lora.CanonicalLoRA\n"
                  "  target_modules: [linear_q, linear_k, linear_v]\n",
       "lora_targets", "qkv"},
      {pretrain + indented("model", kShape), "precision", "bf16"},
  };
  for (const auto& each : cases) EXPECT_EQ(yaml_settings(each.text)[each.key], each.value) << each.text;
}

/// Keys at values that change nothing, of tests and of Megatron-Bridge alone.
TEST(MegatronYaml, HarmlessKeysAreRead) {
  const std::string test =
      "TEST_TYPE: ckpt\nLAUNCHER: ft\nMETRICS:\n  - lm loss\n" + indented("ARGS", kShape);
  const std::string bridge =
      "model:\n  cpu_offloading: false\n  parallel_output: true\n  rope_scaling: false\n"
      "  transformer_layer_spec:\n    _args_: []\n    use_transformer_engine: true\n"
      "ddp:\n  check_for_nan_in_grad: true\n  average_in_collective: true\n"
      "train:\n  exit_signal:\n    _args_: [15]\n";
  EXPECT_EQ(yaml_settings(test)["precision"], "bf16");
  EXPECT_EQ(yaml_settings(bridge)["software"], "megatron-bridge");
  const std::string padded = "  should_pad_vocab: false\n";
  EXPECT_EQ(yaml_settings("model:\n" + padded + "train: {}\n")["make_vocab_size_divisible_by"], "1");
  std::string shape = kShape;
  shape.replace(shape.find("max_position_embeddings: 8192\n"), 30, "");
  EXPECT_THAT(yaml_settings(indented("model", shape) + "train: {}\n")["model"],
              HasSubstr("\"max_position_embeddings\":4096"));
  EXPECT_EQ(
      yaml_settings(std::string(kShape) +
                    "hierarchical_context_parallel_sizes: 2 4\n")["hierarchical_context_parallel_sizes"],
      "2,4");
}

TEST(MegatronYaml, RefusesWithPlaceAndKey) {
  struct Case {
    const char* text;
    const char* words;
  };
  const Case cases[] = {
      {"model:\n  tensor_parallel: 2\ntrain:\n  x: 1\n",
       "run.yaml:2: model.tensor_parallel: unknown to Megatron-Bridge"},
      {"model: {}\ntrain: {}\npeft:\n  _target_: megatron.bridge.peft.dora.DoRA\n",
       "peft._target_: not modelled"},
      {"model: {}\ntrain: {}\npeft:\n  target_modules: [linear_q]\n", "peft.target_modules: not modelled"},
      {"model:\n  use_kitchen: true\ntrain: {}\n", "use_kitchen: not modelled"},
      {"model: {}\ntrain: {}\nmixed_precision: int4\n", "mixed_precision: found a recipe that is not known"},
      {"ARGS:\n  num_layers: x\n  hidden_size: 8\n", "--num-layers: found \"x\""},
      {"ARGS:\n  num_layers: 2\n  num_attention_heads: 2\n", "run.yaml: --hidden-size: missing"},
      {"language_model: [1\n", "not valid YAML"},
  };
  for (const Case& each : cases) {
    try {
      read_launch_file(each.text, "run.yaml").value().require_modelled();
      ADD_FAILURE() << each.words;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(each.words)) << each.text;
    }
  }
}

TEST(MegatronYaml, LeavesPlumblinesOwnFilesAlone) {
  const char* const own[] = {
      "model: llama-3.1-8b\ntensor_model_parallel_size: 2\n",
      "model: {model_type: llama, num_hidden_layers: 2}\noptimizer: adam\n",
      "model: gpt2-124m\nmatrix:\n  tp: [1, 2]\n",
  };
  for (const char* text : own) EXPECT_FALSE(read_launch_file(text, "run.yaml")) << text;
}

}  // namespace
}  // namespace plumbline::megatron_yaml_test
