// Kinds of launch files: those of other frameworks are read by the reader of their keys, or named as what
// they are, with keys of plumbline to give instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/config/config_checks.hpp"
#include "core/config/model_config.hpp"
#include "core/config_text/load_config.hpp"
#include "core/launch_files/launch_file.hpp"
#include "core/reinforcement/phases.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::launch_kinds_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Named {
  const char* file;
  const char* text;
  const char* kind;
};

constexpr Named kNamed[] = {
    {"a.yaml", "model: {}\nparallelism:\n  dp: 2\ntokens:\n  sequence_length: 8\n", "nanotron"},
    {"a.yaml", "model:\n  name: mpt_causal_lm\ntrain_loader: {}\n", "llm-foundry"},
    {"a.yaml", "per_device_batch_size: 2\nici_fsdp_parallelism: 3\n", "MaxText"},
    {"a.yaml", "base_config: base.yml\nper_device_batch_size: 2\n", "MaxText"},
    {"a.yaml", "per_device_batch_size: 2\nmax_target_length: 3\n", "MaxText"},
    {"a.yaml", "policy: {}\ndpo: {}\n", "NeMo-RL"},
    {"a.yaml", "policy: {}\nsft: {}\n", "NeMo-RL"},
    {"a.yaml", "trainer: {}\nexp_manager: {}\nmodel: {}\n", "NeMo"},
    {"a.yaml", "type: causal\nmodel: {}\ndeepspeed: {}\n", "ArcticTraining"},
    {"a.yaml", "pipe_parallel_size: 1\nmodel_parallel_size: 2\n", "GPT-NeoX"},
    {"a.yml", "{\n \"pipe-parallel-size\": 1,\n \"model-parallel-size\": 1\n}\n", "GPT-NeoX"},
    {"a.yml", "{\n\"data_path\": \"a\",\n\"vocab_file\": \"b\",\n\"merge_file\": \"c\"\n}\n", "GPT-NeoX"},
    {"a.yaml",
     "work_group: a\nmodules:\n  pre_trainer:\n    framework: maxtext\n    overrides:\n      steps: 1\n",
     "Primus (MaxText)"},
    {"a.yaml",
     "work_group: a\nmodules:\n  pre_trainer:\n    framework: other\n    overrides:\n      steps: 1\n",
     "Primus"},
    {"a.yaml", "run_name: x\ndevice_train_microbatch_size: 2\nfsdp: {}\n", "OLMo"},
    {"a.sh", "python3 -m verl.trainer.main_generation data.batch_size=8\n", "verl"},
    {"a.sh", "deepspeed --module openrlhf.cli.train_sft --max_len 2048\n", "OpenRLHF"},
    {"a.sh", "swift rlhf --rlhf_type dpo --per_device_train_batch_size 1 --deepspeed zero3\n",
     "ms-swift's rlhf"},
    {"a.sh", "swift rlhf --rlhf_type grpo --per_device_train_batch_size 1\n", "ms-swift's rlhf with GRPO"},
    {"a.sh", "megatron rlhf --rlhf_type dpo --micro_batch_size 1\n", "ms-swift's rlhf"},
    {"a.sh", "swift infer --adapters a/b --stream true\n", "ms-swift's inference"},
    {"a.sh", "swift deploy --adapters a/b\n", "ms-swift's inference"},
    {"a.sh", "swift sample --model a/b\n", "ms-swift's inference"},
    {"a.sh", "vllm serve a/b\n", "vLLM"},
    {"a.sh", "torchrun main_training_llama.py --model_variant=7b\n", "fms-fsdp"},
    {"a.sh", "python3 -m MaxText.train MaxText/configs/base.yml steps=3\n", "MaxText"},
    {"a.sh", "./run_train.sh --module llama3 --config llama3_8b  # torchtitan\n",
     "torchtitan with a configuration in Python"},
    {"a.sh", "nemo llm pretrain --factory llama3_8b\n", "NeMo 2"},
    {"a.sh", "composer train/train.py mpt-7b.yaml\n", "llm-foundry"},
};

/// The keys of an advice, "such as model: llama-3.1-8b, zero_stage: 3", are a configuration.
TEST(LaunchKinds, AreNamedWithKeysThatWorkInstead) {
  const fs::path advised = fs::path(testing::TempDir()) / "advised.yaml";
  for (const Named& each : kNamed) {
    SCOPED_TRACE(each.text);
    const std::string refusal = test::refusal_of([&] { read_launch_file(each.text, each.file); });
    EXPECT_THAT(refusal, testing::StartsWith(std::string(each.file) + ": found a "));
    EXPECT_THAT(refusal, HasSubstr(std::string(" of ") + each.kind + ", which is not read, expected"));
    EXPECT_EQ(refusal.find('\n'), std::string::npos);
    constexpr std::string_view kAdvice = "; change it to keys such as ";
    const std::size_t at = refusal.find(kAdvice);
    ASSERT_NE(at, std::string::npos) << refusal;
    std::ofstream(advised) << "{" << refusal.substr(at + kAdvice.size()) << "}\n";
    std::string note;
    const RunConfig config = load_run_config(advised.string(), {{"hardware", "h100-sxm-80gb"}}, &note);
    const bool trains = config.generation.task != RunTask::generate;
    EXPECT_EQ((config.reinforces() ? why_phases_invalid(config)
               : trains            ? why_invalid(config)
                                   : why_generation_invalid(config))
                  .value_or(""),
              "")
        << refusal;
  }
  fs::remove(advised);
  EXPECT_THAT(test::refusal_of([&] { read_launch_file("from torchtitan import x\n", "registry.py"); }),
              HasSubstr("found a program in Python"));
  // Keys of plumbline that such files have too.
  EXPECT_FALSE(read_launch_file("model: llama-3.1-8b\nsteps: 3\n", "a.yaml").has_value());
}

const std::map<std::string, std::string>& beside() {
  static const std::map<std::string, std::string> kFiles = {
      {"fsdp.yaml", "distributed_type: FSDP\nfsdp_config:\n  fsdp_reshard_after_forward: true\n"},
      {"zero2.yaml", "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n"},
      {"ds.json", R"({"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}})"},
      {"sft.yaml",
       "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: full\nbf16: true\n"
       "deepspeed: ds.json\ncutoff_len: 512\n"},
      {"job.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = 4\n"},
      {"axolotl.yaml",
       "base_model: Qwen/Qwen3-8B\nmicro_batch_size: 1\nsequence_len: 512\ndeepspeed: ds.json\n"},
      {"tune.yaml",
       "model:\n  _component_: torchtune.models.llama3_3.llama3_3_70b\nbatch_size: 2\ndtype: bf16\n"},
      {"job.sbatch",
       "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\nsrun python pretrain_gpt.py --num-layers "
       "8 "
       "--hidden-size 64 --num-attention-heads 2 --max-position-embeddings 8 --vocab-size 99 "
       "--micro-batch-size $1 --seq-length ${LENGTH:-8}\n"},
      {"fixed.sbatch",
       "#SBATCH --nodes=1 --gpus-per-node=8\nLENGTH=16\nsrun python pretrain_gpt.py --num-layers 8 "
       "--hidden-size 64 --num-attention-heads 2 --max-position-embeddings 16 --vocab-size 99 "
       "--micro-batch-size $1 --seq-length $LENGTH\n"},
      {"args.sh", "ARGS=\"--num-layers 2 --hidden-size 64\"\n"}};
  return kFiles;
}

LaunchFile read(const char* file, const std::string& text, const BesideFile& more = {}) {
  const OtherFile other = [](const std::string& path) -> std::optional<std::string> {
    const auto found = beside().find(path);
    return found == beside().end() ? std::nullopt : std::optional(found->second);
  };
  return read_launch_file(text, file, other, more).value();
}

BesideFile with(std::map<std::string, std::string> keys, std::map<std::string, std::string> variables = {},
                std::set<std::string> ignored = {}) {
  BesideFile more;
  more.keys = std::move(keys);
  more.variables = std::move(variables);
  more.ignored = std::move(ignored);
  return more;
}

struct Read {
  const char* file;
  std::string text;
  const char* framework;
  std::map<std::string, std::string> settings;
};

TEST(LaunchKinds, AreReadByTheReaderOfTheirKeys) {
  const std::string trainer =
      " --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 --bf16 True ";
  const std::string primus = "work_group: a\nmodules:\n  pre_trainer:\n    framework: ";
  const char* const hf = "Hugging Face's Trainer";
  const Read cases[] = {
      {"a.sh",
       "accelerate launch --config_file fsdp.yaml --num_processes 16 run_clm.py --block_size 512" + trainer,
       hf,
       {{"software", "torchtitan"},
        {"world_size", "16"},
        {"seq_length", "512"},
        {"micro_batch_size", "2"},
        {"model", "qwen3-8b"}}},
      {"a.sh",
       "accelerate launch --config_file zero2.yaml run_clm.py --gradient-checkpointing" + trainer,
       hf,
       {{"software", "deepspeed"}, {"zero_stage", "2"}, {"recompute_granularity", "full"}}},
      {"a.sh",
       "accelerate launch --use_deepspeed --zero_stage 3 run_clm.py" + trainer,
       hf,
       {{"software", "deepspeed"}, {"zero_stage", "3"}}},
      {"a.sh",
       "deepspeed --num_gpus 4 train.py --deepspeed ds.json" + trainer,
       hf,
       {{"software", "deepspeed"}, {"zero_stage", "3"}, {"world_size", "4"}}},
      {"a.sh",
       "torchrun --nnodes 2 --nproc_per_node 8 sft.py --fsdp \"full_shard auto_wrap\"" + trainer,
       hf,
       {{"software", "torchtitan"}, {"zero_stage", "3"}, {"world_size", "16"}}},
      {"a.sh",
       "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --train_type lora --lora_rank 4 --deepspeed zero2",
       "ms-swift",
       {{"frozen", "lora"},
        {"world_size", "8"},
        {"lora_rank", "4"},
        {"lora_alpha", "32"},
        {"zero_stage", "2"},
        {"precision", "bf16"},
        {"recompute_granularity", "full"},
        {"micro_batch_size", "1"}}},
      {"a.sh",
       "torchrun --nproc_per_node=8 -m torchtitan.train --module llama3 --config llama3_8b "
       "--training.num_tokens_per_microbatch_per_dp_rank 16384 --parallelism.tensor_parallel_degree 2 "
       "--training.num_tokens_per_train_step=1048576 \"$@\"",
       "torchtitan",
       {{"model", "llama-3.1-8b"},
        {"world_size", "8"},
        {"micro_batch_size", "2"},
        {"seq_length", "8192"},
        {"global_batch_size", "128"},
        {"tensor_model_parallel_size", "2"},
        {"learning_rate", "3e-4"},
        {"recompute_granularity", "selective"}}},
      {"a.sh",
       "torchrun -m torchtitan.train --module llama3 --config llama3_405b --training.max_context_length 4096 "
       "--training.num_tokens_per_train_step 262144",
       "torchtitan",
       {{"model", "llama-3.1-405b"},
        {"micro_batch_size", "4"},
        {"global_batch_size", "64"},
        {"seq_length", "4096"},
        {"recompute_granularity", "full"},
        {"tensor_model_parallel_size", "8"},
        {"fp8_format", "hybrid"},
        {"software", "torchtitan-float8-async"}}},
      {"a.sh",
       "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --tuner_type adalora --adalora_target_r 4 "
       "--deepspeed zero3_offload --sequence_parallel_size 4 --max_model_len 9000",
       "ms-swift",
       {{"frozen", "lora"},
        {"lora_rank", "12"},
        {"lora_alpha", "32"},
        {"optimizer_offload_fraction", "1"},
        {"offload_params", "true"},
        {"context_parallel_size", "4"},
        {"cp_comm_type", "a2a"}}},
      {"a.sh", "NPROC_PER_NODE=8 swift sft", "ms-swift", {{"world_size", "8"}, {"frozen", "lora"}}},
      {"a.sh",
       "swift sft --model Qwen/Qwen3-8B --tuner_type adalora --adalora_init_r 6 --deepspeed zero2_offload",
       "ms-swift",
       {{"lora_rank", "6"}, {"optimizer_offload_fraction", "1"}, {"offload_params", ""}}},
      {"a.sh",
       "n=2\nswift sft --model Qwen/Qwen3-8B --tuner_type full --attn_impl flash_attn --system 'a b' "
       "--gradient_accumulation_steps $(expr 32 / $n \\* 3 - 1) --max_length 512 --model_author x "
       "--split_dataset_ratio 0 --deepspeed zero3",
       "ms-swift",
       {{"frozen", ""}, {"attention_backend", "fused"}, {"seq_length", "512"}, {"zero_stage", "3"}}},
      {"a.sh",
       "torchrun --nproc_per_node 8 swift/cli/sft.py --model Qwen/Qwen3-8B --attn_impl eager",
       "ms-swift",
       {{"frozen", "lora"}, {"attention_backend", "unfused"}, {"world_size", "8"}}},
      {"a.sh",
       "megatron sft --model Qwen/Qwen3-30B-A3B-Base --tuner_type lora --lora_rank 4 --lora_alpha 16 "
       "--target_modules all-linear --max_length 512 --save_steps 9 --eval_steps 9",
       "ms-swift (Megatron-Core)",
       {{"frozen", "lora"},
        {"lora_rank", "4"},
        {"lora_alpha", "16"},
        {"lora_targets", "all"},
        {"overlap_grad_reduce", "false"}}},
      {"a.sh",
       "megatron sft --model Qwen/Qwen3-8B --tuner_type lora --target_modules linear_qkv linear_proj "
       "--max_length 512",
       "ms-swift (Megatron-Core)",
       {{"frozen", "lora"}, {"lora_targets", "attention"}, {"lora_rank", "8"}}},
      {"a.sh",
       "megatron sft --model Qwen/Qwen3-30B-A3B-Base --tensor_model_parallel_size 2 --max_length 512 "
       "--moe_grouped_gemm true --packing true --optimizer_cpu_offload true --optimizer_offload_fraction 0.7 "
       "--use_precision_aware_optimizer true",
       "ms-swift (Megatron-Core)",
       {{"model", "qwen3-30b-a3b"},
        {"optimizer_offload_fraction", "0.7"},
        {"store_param_remainders", ""},
        {"tensor_model_parallel_size", "2"},
        {"seq_length", "512"},
        {"zero_stage", "1"},
        {"recompute_granularity", "selective"},
        {"global_batch_size", "16"}}},
      {"a.sh",
       "llamafactory-cli train sft.yaml learning_rate=1e-5",
       hf,
       {{"model", "qwen3-8b"}, {"zero_stage", "3"}, {"seq_length", "512"}, {"learning_rate", "1e-5"}}},
      {"a.sh",
       "torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file job.toml "
       "--parallelism.tensor_parallel_degree 2 --training.seq_len=512",
       "torchtitan",
       {{"model", "llama-3.1-8b"},
        {"tensor_model_parallel_size", "2"},
        {"seq_length", "512"},
        {"micro_batch_size", "4"},
        {"world_size", "8"}}},
      {"a.sh",
       "accelerate launch --num_processes 4 -m axolotl.cli.train axolotl.yaml --micro_batch_size 3",
       "Axolotl",
       {{"model", "qwen3-8b"}, {"micro_batch_size", "3"}, {"zero_stage", "3"}, {"world_size", "4"}}},
      {"a.sh",
       "torchrun --nnodes=1 --nproc_per_node=$1 -m verl.trainer.fsdp_sft_trainer data.train_files=a "
       "optim.lr=1e-4 +data.response_dict_keys=['answer'] data.micro_batch_size_per_gpu=2 "
       "model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct trainer.n_gpus_per_node=4 model.lora_rank=32 "
       "model.target_modules=all-linear ulysses_sequence_parallel_size=2 use_remove_padding=true $@",
       "verl",
       {{"model", "qwen2.5-0.5b"},
        {"software", "torchtitan"},
        {"seq_length", "1024"},
        {"micro_batch_size", "2"},
        {"global_batch_size", "256"},
        {"context_parallel_size", "2"},
        {"recompute_granularity", "full"},
        {"frozen", "lora"},
        {"lora_rank", "32"},
        {"lora_targets", "all"},
        {"world_size", "4"}}},
      {"a.sh",
       "tune run --nproc_per_node 4 full_finetune_distributed --config tune.yaml batch_size=3 compile=True",
       "torchtune",
       {{"model", "llama-3.1-70b"},
        {"micro_batch_size", "3"},
        {"software", "torchtune-compile"},
        {"world_size", "4"}}},
      {"a.sh",
       "python scripts/training/run_recipe.py --recipe qwen3_30b_a3b_pretrain_config "
       "train.global_batch_size=8 train.micro_batch_size=1",
       "Megatron-Bridge",
       {{"model", "qwen3-30b-a3b"}, {"global_batch_size", "8"}, {"micro_batch_size", "1"}}},
      {"a.yaml",
       primus + "megatron\n    model: llama3.1_70B.yaml\n    overrides:\n      seq_length: 512\n"
                "      micro_batch_size: 2\n      tensor_model_parallel_size: 4\n",
       "Primus (megatron)",
       {{"model", "llama-3.1-70b"}, {"seq_length", "512"}, {"tensor_model_parallel_size", "4"}}},
      {"a.yaml",
       primus +
           "megatron\n    model: llama3.1_70B.yaml\n    overrides:\n      seq_length: ${PRIMUS_SEQ:512}\n"
           "      stderr_sink_level: DEBUG\n      enable_primus_turbo: true\n      use_turbo_deepep: false\n"
           "      recompute_granularity: full\n      recompute_method: block\n"
           "      recompute_num_layers: 0\n",
       "Primus (megatron)",
       {{"seq_length", "512"},
        {"recompute_granularity", ""},
        {"micro_batch_size", "2"},
        {"zero_stage", "1"},
        {"overlap_param_gather", "false"}}},
      {"a.yaml",
       primus + "megatron\n    model: qwen3_30B_A3B.yaml\n    overrides:\n      use_turbo_deepep: true\n"
                "      moe_token_dispatcher_type: alltoall\n      turbo_deepep_num_cu: 80\n"
                "      turbo_sync_free_moe_stage: 1\n",
       "Primus (megatron)",
       {{"model", "qwen3-30b-a3b"}, {"moe_token_dispatcher_type", "flex"}}},
      {"a.yaml",
       primus + "torchtitan\n    model: qwen3_8b.yaml\n    overrides:\n      training:\n"
                "        local_batch_size: 2\n        mock_data: true\n      primus_turbo:\n"
                "        enable_primus_turbo: true\n        use_turbo_mx_linear: false\n",
       "Primus (torchtitan)",
       {{"model", "qwen3-8b"}, {"micro_batch_size", "2"}}},
      {"a.yaml",
       "model_name_or_path: Qwen/Qwen3-8B\ntorch_dtype: bfloat16\nattn_implementation: "
       "kernels-community/flash-attn3\n"
       "bf16: true\nchat_template: x\ndataset_mixture:\n  datasets:\n  - id: a\n  seed: 1\nmax_length: 512\n",
       hf,
       {{"model", "qwen3-8b"}, {"attention_backend", "fused"}, {"seq_length", "512"}}},
      {"a.yaml",
       primus + "torchtitan\n    model: llama3.1_8B-BF16.yaml\n    overrides:\n      training:\n"
                "        local_batch_size: 2\n        seq_len: 512\n",
       "Primus (torchtitan)",
       {{"model", "llama-3.1-8b"}, {"seq_length", "512"}, {"micro_batch_size", "2"}}},
  };
  for (const Read& each : cases) {
    SCOPED_TRACE(each.text);
    try {
      const LaunchFile file = read(each.file, each.text);
      file.require_modelled();
      EXPECT_EQ(file.framework, each.framework);
      std::map<std::string, std::string> settings;
      for (const LaunchSetting& setting : file.settings) settings[setting.key] = setting.value;
      for (const auto& [key, value] : each.settings) EXPECT_EQ(settings[key], value) << key;
    } catch (const InputError& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

/// Options of sbatch count over those of the script; it gets its arguments and --export.
TEST(LaunchKinds, SubmittedScriptsAreRead) {
  struct Case {
    const char* file;
    const char* text;
    const char* gpus;
    const char* length;
    const char* sequences;
  };
  const Case cases[] = {
      {"a.sh", "sbatch job.sbatch 3\n", "32", "8", "3"},
      {"a.sh", "export X=1\nsbatch --nodes=2 --export=ALL,LENGTH=4 job.sbatch 3 4\n", "16", "4", "3"},
      {"a.sh", "LENGTH=2 sbatch -N 1 job.sbatch 1\n", "8", "2", "1"},
      {"a.sh", "bash -x job.sbatch 5\n", "32", "8", "5"},
      {"a.sh", "LENGTH=4 sbatch fixed.sbatch 1\n", "8", "16", "1"},
      {"--megatron-args", "sbatch job.sbatch 3", "32", "8", "3"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.text);
    std::map<std::string, std::string> settings;
    const LaunchFile file = read(each.file, each.text);
    file.require_modelled();
    for (const LaunchSetting& setting : file.settings) settings[setting.key] = setting.value;
    EXPECT_EQ(settings["world_size"], each.gpus);
    EXPECT_EQ(settings["seq_length"], each.length);
    EXPECT_EQ(settings["micro_batch_size"], each.sequences);
  }
  // Two jobs, one that submits itself, and none.
  for (const char* text : {"sbatch job.sbatch 1\nsbatch job.sbatch 2\n", "sbatch none.sbatch\n"})
    EXPECT_THAT(test::refusal_of([&] { read("a.sh", text); }), HasSubstr("found a script without arguments"));
  const OtherFile itself = [](const std::string&) { return std::optional<std::string>("sbatch a.sh\n"); };
  EXPECT_THAT(test::refusal_of([&] { read_launch_file("sbatch a.sh\n", "a.sh", itself); }),
              HasSubstr("found a script without arguments"));
  // Nodes of the job, which torchrun has from Slurm.
  const LaunchFile trainer =
      read("a.sh",
           "#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\nsrun torchrun --nnodes $SLURM_NNODES train.py "
           "--model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2\n");
  std::map<std::string, std::string> settings;
  for (const LaunchSetting& setting : trainer.settings) settings[setting.key] = setting.value;
  EXPECT_EQ(settings["world_size"], "32");
}

/// Arguments with some effect are named apart from those without any.
TEST(LaunchKinds, ApproximatedArgumentsHaveAHeadingOfTheirOwn) {
  const std::string shape =
      "torchrun pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 2 --vocab-size 99 "
      "--max-position-embeddings 8 --micro-batch-size 1 --seq-length 8 ";
  const LaunchFile file =
      read("a.sh", shape + "--rampup-batch-size 8 8 80 --lr 1 --empty-unused-memory-level 0");
  ASSERT_EQ(file.approximated.size(), 1U);
  EXPECT_EQ(file.approximated[0].name, "--rampup-batch-size");
  EXPECT_EQ(file.without_effect.size(), 2U);
  const LaunchFile titan =
      read("a.toml", "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\ngc_freq = 50\n");
  ASSERT_EQ(titan.approximated.size(), 1U);
}

/// Experts in other layers than all behind the first ones.
TEST(LaunchKinds, ExpertsOfLayersAreAnExpression) {
  const std::string shape =
      "torchrun pretrain_gpt.py --num-layers 8 --hidden-size 64 --num-attention-heads 2 --vocab-size 99 "
      "--max-position-embeddings 8 --micro-batch-size 1 --seq-length 8 --normalization RMSNorm --swiglu "
      "--position-embedding-type rope --disable-bias-linear --num-experts 4 --ffn-hidden-size 128 "
      "--moe-ffn-hidden-size 32 ";
  const std::string llama4 =
      "--moe-router-score-function sigmoid --moe-shared-expert-intermediate-size 32 --moe-router-topk 1 ";
  struct Case {
    std::string flags;
    const char* key;
  };
  const Case cases[] = {
      {"--qk-layernorm --moe-layer-freq [0,1]*4", "\"mlp_only_layers\":[0,2,4,6]"},
      {"--qk-layernorm --moe-layer-freq \"([0,1]*4)\"", "\"mlp_only_layers\":[0,2,4,6]"},
      {"--qk-layernorm --moe-layer-freq 2", "\"mlp_only_layers\":[1,3,5,7]"},
      {llama4 + "--moe-layer-freq [0,1]*4", "\"moe_layers\":[1,3,5,7]"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.flags);
    EXPECT_EQ(test::refusal_of([&] {
                const LaunchFile file = read("a.sh", shape + c.flags);
                for (const LaunchSetting& each : file.settings) {
                  if (each.key != "model") continue;
                  EXPECT_THAT(each.value, HasSubstr(c.key));
                  parse_model_config(each.value, "model");
                }
              }),
              "accepted");
  }
}

/// Each advice as it is followed.
TEST(LaunchKinds, AdviceOfTheirReadersWorks) {
  const std::string shape =
      " --num-layers 8 --hidden-size 64 --num-attention-heads 2 --max-position-embeddings 8 --vocab-size 99 "
      "--micro-batch-size 1 --seq-length 8";
  const std::string launch =
      "accelerate launch --config_file none.yaml a.py --bf16 --per_device_train_batch_size 1";
  const std::string found =
      "accelerate launch --config_file fsdp.yaml a.py --bf16 --per_device_train_batch_size 1";
  const std::string pai = "if [ $2 = 8B ]; then N=8; fi\ntorchrun pretrain_qwen.py" + shape +
                          " --num-layers $N --tensor-model-parallel-size ${10}\n";
  const std::string gpt = "torchrun pretrain_gpt.py" + shape;
  struct Case {
    std::string refused;
    const char* advice;
    std::string followed;
    BesideFile more;
  };
  const Case cases[] = {
      {launch, "put it beside the script", found, {}},
      {launch, "or --software and --zero-stage", launch,
       with({{"software", "deepspeed"}, {"zero_stage", "2"}})},
      {". `pwd`/CONFIG.sh\n",
       "put that file beside the script",
       ". `pwd`/args.sh\ntorchrun a.py" + shape + " $ARGS",
       {}},
      {pai, "give the script's arguments with --script-args", pai,
       with({}, {{"1", "dsw"},
                 {"2", "8B"},
                 {"3", "1"},
                 {"4", "1"},
                 {"5", "1"},
                 {"6", "1"},
                 {"7", "1"},
                 {"8", "1"},
                 {"9", "1"},
                 {"10", "2"}})},
      {pai, "give its variable with --set", pai, with({}, {{"2", "8B"}, {"10", "2"}})},
      {gpt + " --tensor-model-parallel-size $TP", "give --tensor-model-parallel-size",
       gpt + " --tensor-model-parallel-size $TP", with({{"tensor_model_parallel_size", "2"}})},
      {gpt + " --attention-backend $A", "give its variable with --set", gpt + " --attention-backend $A",
       with({}, {{"A", "flash"}})},
      {gpt + " --softmax-type learnable", "--ignore softmax-type", gpt + " --softmax-type learnable",
       with({}, {}, {"softmax_type"})},
      {gpt + " --foo", "correct or remove it", gpt, {}},
      {"trl sft --model_name_or_path TheBloke/Llama-2-7B-AWQ --bf16", "--ignore model_name_or_path",
       "trl sft --model_name_or_path TheBloke/Llama-2-7B-AWQ --bf16",
       with({{"model", "llama-2-7b"}}, {}, {"model_name_or_path"})},
      {"megatron sft --model TechxGenus/Llama-3-8B-GPTQ --max_length 512", "--ignore model",
       "megatron sft --model TechxGenus/Llama-3-8B-GPTQ --max_length 512", with({}, {}, {"model"})},
      {"torchrun -m torchtitan.train --module llama3 --config llama3_9b",
       "change it to one of them",
       "torchrun -m torchtitan.train --module llama3 --config llama3_8b",
       {}},
      {"torchrun -m torchtitan.train --config llama3_8b --training.num_tokens_per_train_step 9000",
       "expected a multiple of the 8192 tokens of a sequence; change it",
       "torchrun -m torchtitan.train --config llama3_8b --training.num_tokens_per_train_step 16384",
       {}},
      {"torchrun -m torchtitan.train --config llama3_8b --training.max_context_length -1",
       "expected a number of tokens; change it",
       "torchrun -m torchtitan.train --config llama3_8b --training.max_context_length 1024",
       {}},
      {"axolotl train axolotl.yaml --gptq true --adapter lora", "--ignore gptq",
       "axolotl train axolotl.yaml --gptq true --adapter lora", with({}, {}, {"gptq"})},
      {"axolotl train axolotl.yaml --load_in_4bit true", "--ignore load_in_4bit",
       "axolotl train axolotl.yaml --load_in_4bit true", with({}, {}, {"load_in_4bit"})},
      {"torchrun -m verl.trainer.fsdp_sft_trainer model.use_liger=True", "--ignore model.use_liger",
       "torchrun -m verl.trainer.fsdp_sft_trainer model.use_liger=True", with({}, {}, {"model.use_liger"})},
      {"axolotl train axolotl.yaml --optimizer lion_8bit", "--ignore optimizer",
       "axolotl train axolotl.yaml --optimizer lion_8bit", with({}, {}, {"optimizer"})},
      {"tune run full_finetune_distributed --config none.yaml",
       "put it beside the script",
       "tune run full_finetune_distributed --config tune.yaml",
       {}},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.refused);
    EXPECT_THAT(test::refusal_of([&] { read("a.sh", each.refused).require_modelled(); }),
                HasSubstr(each.advice));
    EXPECT_EQ(test::refusal_of([&] { read("a.sh", each.followed, each.more).require_modelled(); }),
              "accepted");
  }
}

}  // namespace
}  // namespace plumbline::launch_kinds_test
