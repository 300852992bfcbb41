// Launch files of Megatron-LM as configurations.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>

#include "core/base/error.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/config_text/load_config.hpp"
#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/launch_file.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::megatron_launch_test {
namespace {

using testing::HasSubstr;

constexpr const char* kLlama =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 "
    "--group-query-attention "
    "--num-query-groups 8 --seq-length 4096 --max-position-embeddings 8192 --position-embedding-type rope "
    "--swiglu --normalization RMSNorm --disable-bias-linear --untie-embeddings-and-output-weights "
    "--vocab-size 128256 --micro-batch-size 1 --bf16 ";

/// The configuration of arguments behind those of a Llama.
std::map<std::string, std::string> read(const std::string& more) {
  const RunConfig config = load_run_config(kLlama + more, {{"gpus", "64"}});
  std::map<std::string, std::string> keys;
  for (const auto& [key, value] : describe(config)) keys[key] = value;
  return keys;
}

std::string complaint(const std::string& source) {
  return test::refusal_of([&] { load_run_config(source, {}); });
}

TEST(MegatronLaunch, FlagsBecomeKeys) {
  struct Case {
    const char* flags;
    const char* key;
    const char* value;
  };
  const Case cases[] = {
      {"", "software", "megatron-core"},
      {"", "precision", "bf16"},
      {"", "grad_dtype", "fp32"},
      {"", "hidden_dropout", "0.1"},
      {"", "cross_entropy_loss_fusion", "false"},
      {"", "overlap_grad_reduce", "false"},
      {"", "zero_stage", "0"},
      {"--grad-reduce-in-bf16", "grad_dtype", "same"},
      {"--use-distributed-optimizer", "zero_stage", "1"},
      {"--use-distributed-optimizer --overlap-param-gather", "overlap_param_gather", "true"},
      {"--no-align-param-gather", "align_param_gather", "false"},
      {"--use-megatron-fsdp", "zero_stage", "3"},
      {"--use-megatron-fsdp", "grad_dtype", "same"},
      {"--use-megatron-fsdp", "software", "megatron-bridge-fsdp"},
      {"--tensor-model-parallel-size 4", "tensor_model_parallel_size", "4"},
      {"--tensor-model-parallel-size 4 --tensor-model-parallel-size 2", "tensor_model_parallel_size", "2"},
      {"--tensor-model-parallel-size=2", "tensor_model_parallel_size", "2"},
      {"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4",
       "virtual_pipeline_chunks", "2"},
      {"--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 4", "pipeline_schedule",
       "interleaved"},
      {"--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 4", "virtual_pipeline_chunks",
       "4"},
      {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"Et*15|t*17L\"",
       "layer_distribution", "15,17"},
      {"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"Et*3|(tt|)*14tL\"",
       "virtual_pipeline_chunks", "8"},
      {"--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 14", "layer_distribution",
       "14,18"},
      {"--pipeline-model-parallel-size 2 --account-for-embedding-in-pipeline-split "
       "--account-for-loss-in-pipeline-split",
       "layer_distribution", "embedding+loss"},
      {"--recompute-activations", "recompute_granularity", "selective"},
      {"--recompute-granularity selective --recompute-modules core_attn mlp", "recompute_modules",
       "core_attn,mlp"},
      {"--recompute-granularity full --recompute-method uniform --recompute-num-layers 2",
       "recompute_num_layers", "2"},
      {"--recompute-granularity full --recompute-method block --recompute-num-layers 5", "recompute_method",
       "block"},
      {"--recompute-granularity full --recompute-method block --recompute-num-layers 5",
       "recompute_num_layers", "5"},
      {"--recompute-granularity full --recompute-method block --recompute-num-layers 32",
       "recompute_num_layers", "1"},
      {"--loss-scale 4", "loss_scale", "auto"},  // bf16
      {"--fp8-format hybrid", "fp8_format", "hybrid"},
      {"--fp8-format hybrid", "fp8_amax_history_len", "1"},
      {"--context-parallel-size 2 --cp-comm-type a2a", "cp_comm_type", "a2a"},
      {"--context-parallel-size 2 --dynamic-context-parallel --max-seqlen-per-dp-cp-rank 2048",
       "dynamic_context_parallel", "true"},
      {"--attention-backend local", "attention_backend", "unfused"},
      {"--cuda-graph-impl local --cuda-graph-modules attn moe_router", "cuda_graph_modules",
       "attn,moe_router"},
      {"--cuda-graph-impl local --cuda-graph-scope full_iteration", "cuda_graph_impl", "full_iteration"},
      {"--num-experts 8 --moe-enable-deepep", "moe_token_dispatcher_type", "flex"},
      {"--num-experts 8", "moe_token_dispatcher_type", "allgather"},
      {"--num-experts 8 --moe-expert-capacity-factor 1.5", "moe_expert_capacity_factor", "1.5"},
      {"--num-experts 8 --moe-expert-capacity-factor -1", "moe_expert_capacity_factor", "none"},
  };
  for (const Case& each : cases) EXPECT_EQ(read(each.flags)[each.key], each.value) << each.flags;
}

TEST(MegatronLaunch, LayersBecomeAFamily) {
  struct Case {
    std::string flags;
    const char* family;
  };
  const std::string shape =
      "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --max-position-embeddings "
      "256 "
      "--vocab-size 1000 --micro-batch-size 1 ";
  const std::string rope = "--position-embedding-type rope ";
  const std::string rms = rope + "--normalization RMSNorm --swiglu --disable-bias-linear ";
  const std::string latent = rms +
                             "--num-experts 4 --multi-latent-attention --moe-ffn-hidden-size 64 "
                             "--moe-shared-expert-intermediate-size 128 ";
  const Case cases[] = {
      {"", "gpt2"},
      {"--group-query-attention", "gpt_bigcode"},
      {rope, "nemotron"},
      {rope + "--squared-relu --disable-bias-linear --rotary-percent 0.5", "nemotron"},
      {rope + "--swiglu --disable-bias-linear --rotary-percent 0.5", "stablelm"},
      {rope + "--swiglu --disable-bias-linear --add-qkv-bias", "stablelm"},
      {rms, "llama"},
      {rms + "--add-qkv-bias", "qwen2"},
      {rms + "--qk-layernorm", "qwen3"},
      {rms + "--rotary-percent 0.5", "glm"},
      {rms + "--window-size 127,0", "mistral"},
      {rms + "--num-experts 4", "mixtral"},
      {rms + "--num-experts 4 --qk-layernorm", "qwen3_moe"},
      {rms +
           "--num-experts 4 --moe-shared-expert-intermediate-size 64 --moe-shared-expert-gate --add-qkv-bias",
       "qwen2_moe"},
      {rms + "--num-experts 4 --moe-router-score-function sigmoid --moe-layer-freq '([0]*1+[1]*3)'",
       "glm4_moe"},
      {latent + "--moe-router-score-function sigmoid", "deepseek_v3"},
      {latent + "--moe-router-pre-softmax", "deepseek_v2"},
  };
  for (const Case& each : cases) {
    try {
      EXPECT_EQ(load_run_config(shape + each.flags, {}).model.architecture, each.family) << each.flags;
    } catch (const InputError& error) {
      ADD_FAILURE() << each.flags << ": " << error.what();
    }
  }
  EXPECT_THAT(complaint(shape + rope + "--swiglu --disable-bias-linear --qk-layernorm"),
              HasSubstr("--normalization: found LayerNorm"));
  // A vocabulary that no flag gives is that of the preset of this shape.
  const std::string qwen =
      rms +
      "--num-layers 36 --hidden-size 4096 --ffn-hidden-size 12288 --num-attention-heads 32 "
      "--group-query-attention --num-query-groups 8 --kv-channels 128 --qk-layernorm "
      "--seq-length 256 --max-position-embeddings 256 --micro-batch-size 1 ";
  EXPECT_EQ(load_run_config(qwen, {}).model.vocab, 151936);
  EXPECT_EQ(load_run_config(
                qwen + "--tokenizer-type HuggingFaceTokenizer --tokenizer-model meta-llama/Llama-3.1-8B", {})
                .model.vocab,
            128256);
}

TEST(MegatronLaunch, ShardingStrategiesOfFsdp) {
  const struct {
    const char* strategy;
    const char* zero;
    bool fsdp;
  } cases[] = {{"no_shard", "0", false},
               {"optim", "1", false},
               {"optim_grads", "2", true},
               {"optim_grads_params", "3", true}};
  for (const auto& each : cases) {
    const auto launch = read_launch_file(
        kLlama + std::string("--use-megatron-fsdp --data-parallel-sharding-strategy ") + each.strategy,
        "--megatron-args");
    ASSERT_TRUE(launch);
    std::map<std::string, std::string> read;
    for (const LaunchSetting& setting : launch->settings) read[setting.key] = setting.value;
    EXPECT_EQ(read["zero_stage"], each.zero);
    EXPECT_EQ(read["software"] == "megatron-bridge-fsdp", each.fsdp) << each.strategy;
  }
}

TEST(MegatronLaunch, DoubleBuffersAreRead) {
  const std::string flags = "--fsdp-double-buffer --use-nccl-ub ";
  for (const bool on : {true, false}) {
    const auto launch =
        read_launch_file(kLlama + flags + (on ? "--use-megatron-fsdp" : ""), "--megatron-args");
    ASSERT_TRUE(launch);
    EXPECT_TRUE(launch->refused.empty());
    EXPECT_EQ(std::ranges::any_of(launch->notes,
                                  [](const std::string& note) {
                                    return note.find("--use-nccl-ub: predicted as") != std::string::npos;
                                  }),
              on);
    EXPECT_EQ(std::ranges::any_of(launch->settings,
                                  [](const LaunchSetting& each) { return each.key == "fsdp_double_buffer"; }),
              on);
  }
}

/// Flags as in Megatron-LM's examples/post_training/modelopt/conf/openai/gpt-oss-120b.sh.
TEST(MegatronLaunch, LayersOfGptOss) {
  const std::string flags =
      "--num-layers 36 --hidden-size 2880 --ffn-hidden-size 2880 --num-attention-heads 64 "
      "--group-query-attention --num-query-groups 8 --kv-channels 64 --num-experts 128 --moe-ffn-hidden-size "
      "2880 --moe-router-topk 4 --normalization RMSNorm --enable-gpt-oss --rotary-base 150000 "
      "--untie-embeddings-and-output-weights --seq-length 4096 --max-position-embeddings 131072 "
      "--vocab-size 201088 --micro-batch-size 1 --bf16 --quick-geglu --glu-linear-offset 1.0 "
      "--activation-func-clamp-value 7.0 ";
  const std::string own = "--softmax-type learnable --window-size 127,0 --window-attn-skip-freq 2 ";
  const ModelConfig read = load_run_config(flags + own, {}).model;
  const ModelConfig& preset = *find_preset("gpt-oss-120b");
  EXPECT_EQ(read.architecture, preset.architecture);
  EXPECT_EQ(read.parameters(), preset.parameters());
  EXPECT_EQ(read.active_parameters(), preset.active_parameters());
  EXPECT_EQ(read.window.size, 128);
  EXPECT_EQ(read.window.full_layers, preset.window.full_layers);
  EXPECT_TRUE(read.predicted.sinks && read.predicted.router_bias);
  const ModelConfig bare = load_run_config(flags + own + "--disable-bias-linear", {}).model;
  EXPECT_FALSE(bare.biases.qkv || bare.has_feed_forward_bias() || bare.predicted.router_bias);
  for (const char* other : {"", "--softmax-type learnable --window-size 127,0",
                            "--softmax-type off-by-one --window-size 127,0 --window-attn-skip-freq 2",
                            "--softmax-type learnable --window-size 127,0 --window-attn-skip-freq 4"})
    EXPECT_THAT(complaint(flags + other), HasSubstr("--quick-geglu: not modelled: only gpt-oss")) << other;
}

TEST(MegatronLaunch, RefusalsNamePlaceFlagAndReason) {
  struct Case {
    std::string flags;
    const char* words;
  };
  const std::string llama = kLlama;
  const Case cases[] = {
      {llama + "--softmax-type learnable", "--megatron-args:1: --softmax-type: not modelled"},
      {llama + "--softmax-type vanilla", "accepted"},
      {llama + "--context-parallel-size 4 --hybrid-context-parallel --max-seqlen-per-dp-cp-rank 4096",
       "--max-seqlen-per-dp-cp-rank: found \"4096\", expected --seq-length / --context-parallel-size"},
      {llama + "--micro-batch-sise 1", "--micro-batch-sise: unknown to Megatron-LM's table"},
      {llama + "--micro-batch-sise 1", "nearest known one is --micro-batch-size"},
      {llama + "--tensor-model-parallel-size x",
       "--tensor-model-parallel-size: tensor_model_parallel_size: found \"x\", expected a whole number"},
      {llama + "--hidden-size $H", "--hidden-size: found \"$H\", which the file does not set"},
      {llama + "--hidden-size", "--hidden-size: found nothing, expected one value"},
      {llama + "--bf16 --fp16", "--fp16: found with --bf16, expected one of them"},
      {llama + "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 5",
       "--num-layers-per-virtual-pipeline-stage: found \"5\", expected a divisor of the 8 layers of a rank"},
      {llama + "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"t|E|L\"",
       "expected a layout such as"},
      {llama + "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout \"(E*99999999999\"",
       "expected a layout"},
      {llama + "--recompute-granularity full --recompute-method block --recompute-num-layers -1",
       "--recompute-num-layers: found \"-1\", expected"},
      {llama + "--num-layers 99999999999",
       "--num-layers: found \"99999999999\", expected a whole number from 0"},
      {"--num-layers 3 --seq-length 4", "--megatron-args: --hidden-size: missing"},
      {"--lr 1", "found a script without arguments of Megatron-LM"},
  };
  for (const Case& each : cases) EXPECT_THAT(complaint(each.flags), HasSubstr(each.words)) << each.flags;
  for (const char* program :
       {"pretrain_bert.py", "a/pretrain_vlm.py", "tools/run_text_generation_server.py"}) {
    EXPECT_THROW(read_launch_file(fmt::format("#!/bin/sh\ntorchrun {} {}", program, kLlama), "x.sh"),
                 InputError);
  }
  EXPECT_THROW(read_launch_file(fmt::format("#!/bin/sh\npython a.py {0}\npython a.py {0}", kLlama), "x.sh"),
               InputError);
}

TEST(MegatronLaunch, LaunchersSayHowManyGpusThereAre) {
  struct Case {
    std::string script;
    const char* gpus;
  };
  const std::string program = std::string(" pretrain_gpt.py ") + kLlama;
  const Case cases[] = {
      {"torchrun --nproc_per_node 8 --nnodes 4" + program, "32"},
      {"N=4\nD=\"--nproc_per_node=8 --nnodes=$((N/2))\"\npython -m torch.distributed.run $D" + program, "16"},
      {"deepspeed --num_gpus 4" + program, "4"},
      {"accelerate launch --num_processes 12" + program, "12"},
      {"#SBATCH --nodes=2 --ntasks-per-node=4\nsrun python" + program, "8"},
      {"#SBATCH -N 3\n#SBATCH --gres=gpu:8\nsrun sh -c \"python -u" + program + "\"", "24"},
      {"CMD=\"torchrun --nproc-per-node 2" + program + "\"\neval $CMD", "2"},
      {"torchrun --nproc_per_node $GPUS" + program, ""},
  };
  for (const Case& each : cases) {
    const auto launch = read_launch_file("#!/bin/bash\n" + each.script + "\n", "x.sh");
    ASSERT_TRUE(launch) << each.script;
    std::string gpus;
    for (const LaunchSetting& setting : launch->settings)
      if (setting.key == "world_size") gpus = setting.value;
    EXPECT_EQ(gpus, each.gpus) << each.script;
  }
}

TEST(MegatronLaunch, AFileOfTheScriptIsAConfiguration) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / fmt::format("plumbline_launch.{}", ::getpid());
  fs::create_directories(folder);
  const std::string script = (folder / "train").string();  // recognised by its content
  std::ofstream(script)
      << "#!/bin/bash\nARGS=(" << kLlama
      << ")\nEXTRA_ARGS=$1\ntorchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py ${ARGS[@]} $MORE_ARGS "
         "\\\n  --lr 1e-4\n";
  std::string note;
  const RunConfig config = load_run_config(script, {{"tp", "2"}}, &note);
  EXPECT_EQ(config.parallel.world_size, 16);
  EXPECT_EQ(config.parallel.data(), 8);
  EXPECT_EQ(config.batch.global_batch_size, 8);
  EXPECT_THAT(note, HasSubstr("read as Megatron-LM; 1 arguments without effect"));
  EXPECT_THAT(note, HasSubstr("$MORE_ARGS is not set in the file"));
  EXPECT_EQ(load_run_config(script, {{"dp", "3"}}).parallel.world_size, 3);
  fs::remove_all(folder);
}

constexpr const char* kLog =
    "using world size: 16\n------------ arguments ------------\n"
    "  add_bias_linear ................................. False\n"
    "  bf16 ............................................ True\n"
    "  consumed_train_samples .......................... 0\n"
    "  cp_comm_type .................................... ['p2p']\n"
    "  ffn_hidden_size ................................. 14336\n"
    "  group_query_attention ........................... True\n"
    "  hidden_size ..................................... 4096\n"
    "  layernorm_epsilon ............................... 1e-05\n"
    "  max_position_embeddings ......................... 8192\n"
    "  micro_batch_size ................................ 2\n"
    "  normalization ................................... RMSNorm\n"
    "  num_attention_heads ............................. 32\n"
    "  num_experts ..................................... None\n"
    "  num_layers ...................................... 32\n"
    "  num_query_groups ................................ 8\n"
    "  padded_vocab_size ............................... 128256\n"
    "0:   perform_rl_step ............................. False\n"
    "  position_embedding_type ......................... rope\n"
    "  seq_length ...................................... 4096\n"
    "  swiglu .......................................... True\n"
    "  tensor_model_parallel_size ...................... 4\n"
    "  untie_embeddings_and_output_weights ............. True\n"
    "  world_size ...................................... 16\n";

TEST(MegatronLaunch, ALogOfArgumentsSaysTheSame) {
  const auto launch = read_launch_file(kLog, "run.log");
  ASSERT_TRUE(launch);
  EXPECT_TRUE(launch->refused.empty());
  std::map<std::string, std::string> keys;
  for (const LaunchSetting& setting : launch->settings) keys[setting.key] = setting.value;
  EXPECT_EQ(keys["world_size"], "16");
  EXPECT_EQ(keys["micro_batch_size"], "2");
  EXPECT_EQ(keys["tensor_model_parallel_size"], "4");
  EXPECT_THAT(keys["model"], HasSubstr("\"model_type\":\"llama\""));
}

/// `list` in front of, within or behind lines of training, 3 MiB in all.
std::string long_log(const std::string& list, int place) {
  const auto steps = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += fmt::format(" iteration {:8}/ 500000 | consumed samples: 1 | lm loss: 1.1E+01 | ...\n", i);
    return text;
  };
  const int all = 40'000;
  return steps(all * place / 2) + list + steps(all - all * place / 2);
}

TEST(MegatronLaunch, LogsOfAnyLengthAreRead) {
  const std::string path = testing::TempDir() + std::to_string(::getpid()) + "long.log";
  const std::string again =
      std::regex_replace(std::string(kLog), std::regex("size \\.+ 4\n"), "size ... 8\n");
  for (int place = 0; place < 3; ++place) {
    for (const std::string& list : {std::string(kLog), kLog + long_log(again, 0)}) {
      std::ofstream(path) << long_log(list, place);
      ASSERT_GT(std::filesystem::file_size(path), kMostLaunchBytes);
      const ConfigFile file(path);
      const Settings settings = file.settings(file.root());
      const bool twice = list.size() > 10'000;
      EXPECT_EQ(settings.at("tensor_model_parallel_size").text, twice ? "8" : "4");
      EXPECT_EQ(settings.at("seq_length").origin.substr(path.size()),
                fmt::format(":{}: --seq-length", 20'000 * place + (twice ? 46 : 21)))
          << place;
      EXPECT_EQ(testing::PrintToString(file.notes()).find("last list counts") != std::string::npos, twice);
    }
  }
  std::ofstream(path) << long_log("", 0);
  EXPECT_THAT(test::refusal_of([&] { const ConfigFile file(path); }),
              HasSubstr("without a list of Megatron-LM's arguments, expected a file of at most 1048576"));
  std::filesystem::remove(path);
}

TEST(MegatronLaunch, OtherFilesAreNone) {
  for (const char* text : {"model: gpt2-124m\ntp: 2\n", "", "{}", "# train\nmodel: x ...\n"})
    EXPECT_FALSE(read_launch_file(text, "run.yaml")) << text;
}

TEST(MegatronLaunch, TheTableNamesKeysThatExist) {
  for (const auto& [flag, row] : argument_table("megatron_flags.txt").rows()) {
    EXPECT_TRUE(flag.starts_with("--")) << flag;
    if (row.fate != ArgumentFate::key) continue;
    const std::string key = row.detail.substr(0, row.detail.find('='));
    EXPECT_NE(find_config_key(key), nullptr) << flag << ": " << key;
  }
}

// Scripts that another one sources, as those of slime, do without.
TEST(MegatronLaunch, RotaryPositionsNeedNoNumberOfPositions) {
  const std::string model =
      "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --vocab-size 1000 --swiglu "
      "--normalization RMSNorm --disable-bias-linear --micro-batch-size 1 ";
  const std::string rope = "--use-rotary-position-embeddings ";
  EXPECT_EQ(load_run_config(model + rope + "--seq-length 256", {}).model.position.max, 256);
  EXPECT_THAT(complaint(model + "--seq-length 256"), HasSubstr("--max-position-embeddings: missing"));
}

}  // namespace
}  // namespace plumbline::megatron_launch_test
