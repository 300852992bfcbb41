// Recipes of torchtune, Axolotl and NeMo Automodel: the keys that follow, and what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <string>

#include "core/launch_files/arguments/quantized_names.hpp"
#include "core/launch_files/launch_file.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::torch_recipes_test {
namespace {

using testing::HasSubstr;

struct Recipe {
  std::string text;
  const char* framework;
  std::map<std::string, std::string> settings;  // an empty value: not set
};

void expect_read(const Recipe& each) {
  SCOPED_TRACE(each.text);
  const LaunchFile file = read_launch_file(each.text, "a.yaml").value();
  EXPECT_EQ(test::refusal_of([&] { file.require_modelled(); }), "accepted");
  EXPECT_EQ(file.framework, each.framework);
  std::map<std::string, std::string> settings;
  for (const LaunchSetting& setting : file.settings) settings[setting.key] = setting.value;
  for (const auto& [key, value] : each.settings) EXPECT_EQ(settings[key], value) << key;
}

/// Phrase of the refusal of a text.
struct Refused {
  std::string text;
  const char* phrase;
};

/// The refusal, and the file as its advice leaves it: without the refused arguments (--ignore). The number of
/// advices that were followed.
int expect_refused(const Refused& each) {
  SCOPED_TRACE(each.text);
  BesideFile beside;
  bool faulty = false;
  const std::string refusal = test::refusal_of([&] {
    const auto file = read_launch_file(each.text, "a.yaml");
    if (!file) return;
    faulty = !file->faults.empty();
    for (const LaunchRemark& refused : file->refused)
      beside.ignored.insert(BesideFile::plain_name(refused.name));
    file->require_modelled();
  });
  EXPECT_THAT(refusal, HasSubstr(each.phrase));
  EXPECT_EQ(refusal.find('\n'), std::string::npos);
  if (faulty || beside.ignored.empty()) return 0;
  EXPECT_THAT(refusal, HasSubstr("--ignore "));
  EXPECT_EQ(test::refusal_of([&] {
              const auto file = read_launch_file(each.text, "a.yaml", {}, beside);
              file->require_modelled();
              file->require_ignored("a.yaml");
            }),
            "accepted");
  return 1;
}

template <class Cases>
void expect_all_refused(const Cases& cases) {
  int followed = 0;
  for (const Refused& each : cases) followed += expect_refused(each);
  fmt::print("{} of {} refusals name --ignore, which was followed\n", followed, std::size(cases));
}

std::string tune(const std::string& builder, const std::string& more) {
  return "model:\n  _component_: torchtune.models." + builder + "\n" + more;
}

TEST(TorchRecipes, OfTorchtune) {
  const Recipe recipes[] = {
      {tune("llama3_1.llama3_1_8b",
            "batch_size: 2\ngradient_accumulation_steps: 4\ndtype: bf16\ncompile: False\n"
            "enable_activation_checkpointing: True\ntokenizer:\n  max_seq_len: 512\n"
            "optimizer:\n  _component_: torch.optim.AdamW\n  lr: 2e-5\n"
            "loss:\n  _component_: torchtune.modules.loss.LinearCrossEntropyLoss\n"
            "batch_size_val: ${batch_size}\n"),
       "torchtune",
       {{"model", "llama-3.1-8b"},
        {"software", "torchtune"},
        {"zero_stage", "3"},
        {"precision", "bf16"},
        {"micro_batch_size", "2"},
        {"seq_length", "512"},
        {"recompute_granularity", "full"},
        {"clip_grad", "0"},
        {"frozen", ""}}},
      {tune("qwen3.lora_qwen3_1_7b_instruct",
            "  lora_attn_modules: ['q_proj', 'v_proj', 'output_proj']\n  apply_lora_to_mlp: True\n"
            "  lora_rank: 32\n  lora_alpha: 64\ncompile: True\nclip_grad_norm: 1.0\nmicro: ${none}\n"
            "ac_mode: selective\nac_option: 2\n"),
       "torchtune",
       {{"model", "qwen3-1.7b"}, {"frozen", "lora"}}},
      {tune("llama3_3.lora_llama3_3_70b",
            "  lora_attn_modules: ['q_proj', 'k_proj', 'v_proj']\n  lora_rank: 16\n  lora_alpha: 32\n"
            "tensor_parallel_dim: 2\ndata_parallel_replicate_dim: 2\nac_mode: selective\nac_option: 3\n"
            "optimizer_in_bwd: True\nfsdp_cpu_offload: True\nbatch_size: ${n}\nn: null\ndtype: "
            "fp32\nclip_grad_norm: 1.0\ncompile: "
            "true\n"),
       "torchtune",
       {{"model", "llama-3.1-70b"},
        {"frozen", "lora"},
        {"lora_rank", "16"},
        {"lora_targets", "qkv"},
        {"frozen_weights", ""},
        {"offload_params", "true"},
        {"software", "torchtitan-compile"},
        {"precision", "fp32"},
        {"tensor_model_parallel_size", "2"},
        {"sequence_parallel", "true"},
        {"num_distributed_optimizer_instances", "2"},
        {"recompute_method", "interval"},
        {"recompute_num_layers", "3"},
        {"clip_grad", "1.0"}}},
      {tune(
           "llama2.qlora_llama2_7b",
           "  lora_attn_modules: ['q_proj']\noptimizer:\n  _component_: bitsandbytes.optim.PagedAdamW8bit\n"),
       "torchtune",
       {{"frozen_weights", "nf4_double"},
        {"frozen", "lora"},
        {"exp_avg_dtype", "int8"},
        {"exp_avg_sq_dtype", "int8"}}},
  };
  expect_read(recipes[0]);
  expect_read(recipes[3]);
  expect_refused({recipes[1].text, "micro: unknown to torchtune's table of arguments"});
  expect_read(recipes[2]);
  EXPECT_EQ(read_launch_file(recipes[2].text, "a.yaml")->approximated.at(0).name, "optimizer_in_bwd");
  const Refused refused[] = {
      {tune("llama3_2_vision.llama3_2_vision_11b", ""), "a vision tower"},
      {tune("llama2.llama2_7b", "enable_activation_offloading: True\n"), "activations in host memory"},
      {tune("llama2.llama2_7b", "optimizer:\n  _component_: torchao.optim.AdamW4bit\n"),
       "AdamW4bit, expected AdamW or SGD"},
      {tune("llama2.llama2_7b", "loss:\n  _component_: torchtune.rlhf.loss.DPOLoss\n"),
       "DPOLoss, expected LinearCrossEntropyLoss"},
      {tune("llama2.llama2_7b", "tasks: [x]\n"), "generation or evaluation"},
      {tune("llama2.llama2_7b", "dtype: fp16\n"), "expected bf16 or fp32"},
      {tune("llama2.llama2_7b", "batch_sise: 2\n"), "the nearest known one is batch_size"},
  };
  expect_all_refused(refused);
}

std::string axolotl(const std::string& more) {
  return "base_model: NousResearch/Meta-Llama-3.1-8B\nmicro_batch_size: 2\nsequence_len: 4096\n" + more;
}

TEST(TorchRecipes, OfAxolotl) {
  const Recipe recipes[] = {
      {axolotl("bf16: auto\nsample_packing: true\ngradient_accumulation_steps: 8\noptimizer: adamw_torch\n"
               "gradient_checkpointing: true\nflash_attention: true\nwandb_project:\nval_set_size: 0.1\n"),
       "Axolotl",
       {{"model", "llama-3.1-8b"},
        {"software", "deepspeed"},
        {"zero_stage", "0"},
        {"precision", "bf16"},
        {"micro_batch_size", "2"},
        {"seq_length", "4096"},
        {"recompute_granularity", "full"},
        {"attention_backend", "fused"},
        {"frozen", ""}}},
      {axolotl("adapter: lora\nlora_r: 32\nlora_alpha: 16\nlora_target_linear: true\nbf16: true\n"
               "load_in_8bit: false\neager_attention: true\n"),
       "Axolotl",
       {{"frozen", "lora"},
        {"lora_rank", "32"},
        {"lora_alpha", "16"},
        {"lora_targets", "all"},
        {"recompute_granularity", "none"},
        {"attention_backend", "unfused"}}},
      {axolotl("adapter: lora\nlora_r: 8\nlora_alpha: 16\nlora_target_modules: [q_proj, v_proj, o_proj]\n"
               "fsdp: [full_shard, auto_wrap]\nfsdp_config:\n  activation_checkpointing: true\n"
               "  offload_params: false\ndp_shard_size: 4\n"),
       "Axolotl",
       {{"lora_targets", "attention"},
        {"software", "torchtitan"},
        {"zero_stage", "3"},
        {"precision", "fp32"},
        {"recompute_granularity", "full"}}},
      {axolotl(
           "adapter: qlora\nlora_target_modules: [self_attn.q_proj, c_fc, c_proj]\n"
           "optimizer: paged_adamw_8bit\nplugins: [axolotl.integrations.liger.LigerPlugin]\nbatch_size: 8\n"),
       "Axolotl",
       {{"frozen_weights", "nf4_double"},
        {"lora_targets", "all"},
        {"exp_avg_dtype", "int8"},
        {"exp_avg_sq_dtype", "int8"},
        {"optimizer", "adam"}}},
      {axolotl("adapter: lora\nload_in_8bit: true\noptimizer: adamw_bnb_8bit\n"
               "lora_target_modules: 'model.layers.[\\d]+.(mlp|self_attn).(q|k|v)_proj'\n"),
       "Axolotl",
       {{"frozen_weights", "int8"}, {"lora_targets", "qkv"}, {"exp_avg_dtype", "int8"}}},
  };
  for (const Recipe& each : recipes) expect_read(each);
  const auto file = read_launch_file(recipes[0].text, "a.yaml");
  ASSERT_EQ(file->approximated.size(), 1U);
  EXPECT_THAT(file->approximated[0].reason, HasSubstr("8 bytes a parameter"));
  EXPECT_EQ(file->settings[0].origin, "a.yaml:2: micro_batch_size");
  EXPECT_EQ(read_launch_file(recipes[3].text, "a.yaml")->num_microbatches, 4);
  const auto adapters = read_launch_file(recipes[2].text, "a.yaml");
  EXPECT_EQ(adapters->approximated[0].name, "lora_target_modules");
  const Refused refused[] = {
      {axolotl("load_in_4bit: true\n"), "load_in_4bit: not modelled: quantized weights without adapters"},
      {axolotl("optimizer: adamw_torch_4bit\n"), "optimizer: not modelled: adamw_torch_4bit"},
      {axolotl("plugins: [axolotl.integrations.kernels.KernelsPlugin]\n"), "kernels or a method of its own"},
      {axolotl("rl: dpo\n"), "another loss, method"},
      {axolotl("context_parallel_size: 2\n"), "parallelism over sequences"},
      {axolotl("gradient_checkpointing: offload\n"), "found \"offload\", expected true or false"},
      {axolotl("lora_target_modules: model.layers.*\nadapter: lora\n"), "expected all, or names such as"},
      {axolotl("sequence_length: 2\n"), "unknown to Axolotl's table of arguments"},
  };
  expect_all_refused(refused);
}

std::string automodel(const std::string& model, const std::string& more) {
  return "step_scheduler:\n  global_batch_size: 32\n  local_batch_size: 4\nmodel:\n"
         "  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained\n"
         "  pretrained_model_name_or_path: " +
         model + "\n" + more;
}

TEST(TorchRecipes, OfAutomodel) {
  const std::string pipeline =
      "  pp_size: 4\n  pipeline:\n    pp_schedule: interleaved1f1b\n    pp_microbatch_size: 2\n"
      "    layers_per_stage: 4\n    patch_inner_model: false\n";
  const Recipe recipes[] = {
      {automodel("Qwen/Qwen3-30B-A3B",
                 "  backend:\n    attn: te\n    dispatcher: deepep\n    experts: gmm\ndistributed:\n"
                 "  strategy: fsdp2\n  tp_size: none\n  ep_size: 8\n  activation_checkpointing: true\n"
                 "packed_sequence:\n  packed_sequence_size: 1024\noptimizer:\n  _target_: torch.optim.Adam\n"
                 "  lr: 1.0e-4\n"),
       "NeMo Automodel",
       {{"model", "qwen3-30b-a3b"},
        {"software", "nemo-automodel"},
        {"zero_stage", "3"},
        {"expert_model_parallel_size", "8"},
        {"moe_token_dispatcher_type", "flex"},
        {"global_batch_size", "32"},
        {"micro_batch_size", "4"},
        {"seq_length", "1024"},
        {"clip_grad", "1"},
        {"recompute_granularity", "full"},
        {"attention_backend", "fused"}}},
      {automodel("meta-llama/Llama-3.1-8B",
                 "  torch_dtype: torch.float32\ndataset:\n  seq_len: 512\ndistributed:\n  tp_size: 2\n"
                 "  sequence_parallel: true\n  dp_size: 2\n" +
                     pipeline + "clip_grad_norm:\n  max_norm: 0.5\n"),
       "NeMo Automodel",
       {{"software", "torchtitan"},
        {"grad_dtype", "fp32"},
        {"tensor_model_parallel_size", "2"},
        {"sequence_parallel", "true"},
        {"data_parallel_size", "2"},
        {"pipeline_model_parallel_size", "4"},
        {"pipeline_schedule", "interleaved"},
        {"virtual_pipeline_chunks", "2"},
        {"micro_batch_size", "2"},
        {"seq_length", "512"},
        {"clip_grad", "0.5"}}},
      {automodel("meta-llama/Llama-3.3-70B-Instruct",
                 "peft:\n  _target_: nemo_automodel.components._peft.lora.PeftConfig\n"
                 "  target_modules: '*_proj'\n  dim: 16\n  alpha: 32\ndllm: null\n"),
       "NeMo Automodel",
       {{"model", "llama-3.1-70b"}, {"frozen", "lora"}, {"lora_rank", "16"}, {"lora_targets", "all"}}},
  };
  for (const Recipe& each : recipes) expect_read(each);
  const auto file = read_launch_file(recipes[1].text, "a.yaml");
  for (const LaunchSetting& each : file->settings) {
    if (each.key == "seq_length") {
      EXPECT_EQ(each.origin, "a.yaml:9: dataset.seq_len");
    }
  }
  const Refused refused[] = {
      {automodel("a/Qwen3-8B-NVFP4", ""), "quantized weights, as NVFP4 in its name says"},
      {automodel("a/b", "distributed:\n  strategy: megatron_fsdp\n"), "megatron_fsdp, expected fsdp2"},
      {automodel("a/b", "optimizer:\n  _target_: dion.Muon\n"), "Muon, expected Adam or AdamW"},
      {automodel("a/b", "quantization:\n  load_in_4bit: true\n"), "quantized weights"},
      {automodel("a/b", "fp8:\n  enabled: true\n"), "FP8 of Automodel"},
      {automodel("a/b", "teacher_model:\n  a: b\n"), "knowledge distillation"},
      {automodel("a/b", "recipe: TrainFinetuneRecipeForSequenceClassification\n"),
       "expected a recipe for next-token prediction"},
      {automodel("a/b", "distributed:\n  tp_size: 0\n"), "expected none, or 1 to"},
      {automodel("a/b", "distributed:\n  tp_sise: 2\n"), "the nearest known one is distributed.tp_size"},
  };
  expect_all_refused(refused);
}

std::string neox(const std::string& more) {
  return "# comment\n{\n\"pipe-parallel-size\": 2,\n\"model-parallel-size\": 4,\n\"num-layers\": 4,\n"
         "\"hidden_size\": 512,\n\"num_attention_heads\": 8,\n\"seq_length\": 2048,\n"
         "\"max_position_embeddings\": 2048,\n\"train_micro_batch_size_per_gpu\": 4,\n" +
         more + "}\n";
}

TEST(TorchRecipes, OfGptNeox) {
  const std::string pythia =
      "\"pos_emb\": \"rotary\",\n\"rotary_pct\": 0.25,\n\"no_weight_tying\": true,\n"
      "\"gpt_j_residual\": true,\n";
  const Recipe recipes[] = {
      {neox(pythia + "\"attention_config\": [[[\"flash\"], 4]],\n\"zero_optimization\": {\"stage\": 1, "
                     "\"cpu_offload\": true},\n"
                     "\"fp16\": {\"enabled\": true, \"fp16\": true},\n\"checkpoint_activations\": true,\n"
                     "\"partition_activations\": true,\n\"gradient_clipping\": 1.0,\n"),
       "GPT-NeoX",
       {{"software", "megatron-deepspeed"},
        {"zero_stage", "1"},
        {"optimizer_offload_fraction", "1"},
        {"precision", "fp16"},
        {"micro_batch_size", "4"},
        {"tensor_model_parallel_size", "4"},
        {"pipeline_model_parallel_size", "2"},
        {"recompute_granularity", "full"},
        {"attention_backend", "fused"},
        {"clip_grad", "1.0"},
        {"model", R"({"model_type":"gpt_neox","num_hidden_layers":4,"hidden_size":512,)"
                  R"("num_attention_heads":8,"intermediate_size":2048,"vocab_size":50257,)"
                  R"("max_position_embeddings":2048,"tie_word_embeddings":false,"rotary_pct":0.25,)"
                  R"("rotary_emb_base":10000.0,"use_parallel_residual":true})"}}},
      {neox("\"pos_emb\": \"rotary\",\n\"norm\": \"rmsnorm\",\n\"activation\": \"swiglu\",\n"
            "\"intermediate_size\": 4096,\n\"mlp_multiple_of\": 256,\n\"num_kv_heads\": 2,\n"
            "\"use_bias_in_attn_linear\": false,\n\"precision\": \"bfloat16\",\n"
            "\"tokenizer_type\": \"HFTokenizer\",\n\"data_types\": {\"grad_accum_dtype\": \"fp32\"},\n"
            "\"make_vocab_size_divisible_by\": 64,\n"),
       "GPT-NeoX",
       {{"precision", "bf16"},
        {"grad_dtype", ""},
        {"make_vocab_size_divisible_by", "64"},
        {"attention_backend", "unfused"},
        {"model", R"({"model_type":"llama","num_hidden_layers":4,"hidden_size":512,)"
                  R"("num_attention_heads":8,"intermediate_size":1536,"vocab_size":50277,)"
                  R"("max_position_embeddings":2048,"tie_word_embeddings":true,"num_key_value_heads":2,)"
                  R"("rope_theta":10000.0})"}}},
  };
  for (const Recipe& each : recipes) expect_read(each);
  const Refused refused[] = {
      {neox(""), "num_layers: found with learned positions, expected pos_emb: rotary"},
      {neox("\"pos_emb\": \"alibi\",\n"), "pos_emb: found \"alibi\", expected rotary"},
      {neox(pythia + "\"moe_num_experts\": 8,\n"), "moe_num_experts: not modelled"},
      {neox(pythia + "\"attention_config\": [[[\"mamba\"], 4]],\n"), "expected flash or global"},
      {neox(pythia + "\"optimizer\": {\"type\": \"sm3\"},\n"), "expected Adam, AdamW or SGD"},
      {neox(pythia + "\"zero_optimization\": {\"zenflow\": {\"topk_ratio\": 1}},\n"), "updated steps later"},
  };
  expect_all_refused(refused);
}

TEST(TorchRecipes, QuantizedCheckpointsAreKnownByTheirNames) {
  struct Case {
    const char* name;
    const char* word;
    const char* lossy;
  };
  const Case cases[] = {
      {"TechxGenus/Meta-Llama-3-8B-Instruct-AWQ", "AWQ", "AWQ"},
      {"ISTA-DASLab/Meta-Llama-3-8B-Instruct-AQLM-2Bit-1x16", "AQLM", "AQLM"},
      {"hugging-quants/Meta-Llama-3.1-405B-BNB-NF4-BF16", "BNB", "BNB"},
      {"output/internlm2-1_8b-gptq-int4", "gptq", "gptq"},
      {"unsloth/llama-3-8b-bnb-4bit", "bnb", "bnb"},
      {"Qwen/Qwen3-14B-FP8", "FP8", ""},
      {"nvidia/Qwen3-30B-A3B-NVFP4", "NVFP4", "NVFP4"},
      {"/data/awq/Llama-3-8B", "", ""},
      {"Qwen/Qwen3-8B", "", ""},
      {"", "", ""},
      {"a/", "", ""},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(quantization_word(each.name), each.word) << each.name;
    EXPECT_EQ(lossy_quantization_word(each.name), each.lossy) << each.name;
  }
  expect_refused({"model_name_or_path: a/Llama-3-8B-AWQ\nstage: sft\nfinetuning_type: full\n",
                  "a.yaml:1: model_name_or_path: not modelled: quantized weights, as AWQ in its name says"});
  expect_refused({"model_name_or_path: a/Llama-3-8B-AQLM\nstage: sft\nfinetuning_type: lora\n",
                  "a.yaml:1: model_name_or_path: not modelled: quantized weights, as AQLM in its name says"});
}

}  // namespace
}  // namespace plumbline::torch_recipes_test
