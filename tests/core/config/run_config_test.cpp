// Configuration files: every key round-trips, bad ones are refused with file, line and key, sizes are
// checked.
#include "core/config/run_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.hpp"
#include "core/base/text_input.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/layer_distribution.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class ConfigFolder : public testing::Test {
 protected:
  ConfigFolder()
      : folder_(fs::path(testing::TempDir()) / ("plumbline_run_config_test." + std::to_string(::getpid()))) {
    fs::create_directories(folder_);
  }
  ~ConfigFolder() override { fs::remove_all(folder_); }
  std::string write(const std::string& text, const char* name = "run.yaml") {
    const fs::path path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }
  RunConfig load(const std::string& text, const Overrides& overrides = {}) {
    return load_run_config(write(text), overrides);
  }
  std::string complaint(const std::string& text, const Overrides& overrides = {}) {
    try {
      load(text, overrides);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }
  fs::path folder_;
};

constexpr const char* kTiny =
    "model: {model_type: llama, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 4, vocab_size: "
    "100, "
    "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 32}\n";

TEST_F(ConfigFolder, ReadsEveryKeyOfTheDocumentation) {
  const RunConfig c = load(R"(model: qwen2.5-0.5b            # a preset
hardware: a100-sxm-80gb
world_size: 8
tensor_model_parallel_size: 2
pipeline_model_parallel_size: 2
virtual_pipeline_chunks: 1
context_parallel_size: 1
expert_model_parallel_size: 1
sequence_parallel: false
vocab_parallel: none
pipeline_schedule: 1f1b
zero_stage: 0
recompute_granularity: none
seq_length: 1024
prefix_length: 0
micro_batch_size: 1
global_batch_size: 64
precision: bf16
grad_dtype: fp32
optimizer: adam
memory_budget: 32GiB
teacher: qwen2.5-1.5b
distillation_schedule: abeja
)");
  EXPECT_EQ(c.model.hidden, 896);
  EXPECT_EQ(c.machine.hardware, "a100-sxm-80gb");
  EXPECT_EQ(c.parallel.world_size, 8);
  EXPECT_EQ(c.parallel.data(), 2);
  EXPECT_EQ(c.microbatches(), 32);
  EXPECT_EQ(c.layout().world(), 8);
  EXPECT_EQ(c.machine.memory_budget, 32 * kGiB);
  EXPECT_EQ(c.numerics.precision, DType::bf16);
  ASSERT_TRUE(c.distillation.teacher.has_value());
  EXPECT_EQ(c.distillation.teacher->layers, 28);
  EXPECT_EQ(why_invalid(c), std::nullopt);
}

TEST_F(ConfigFolder, ShortAndDashedNamesAndOverrides) {
  const RunConfig c =
      load("model: gpt2-124m\ntp: 2\npipeline-model-parallel-size: 3\ndp: 2\nmbs: 2\ngbs: 8\n",
           {{"pp", "2"}, {"seq-length", "128"}, {"pp", "6"}, {"precision", "fp32"}});
  EXPECT_EQ(c.parallel.tensor, 2);
  EXPECT_EQ(c.parallel.pipeline, 6);
  EXPECT_EQ(c.parallel.world_size, 24);
  EXPECT_EQ(c.parallel.data(), 2);
  EXPECT_EQ(c.microbatches(), 2);
  EXPECT_EQ(c.batch.seq_length, 128);
  EXPECT_EQ(c.numerics.precision, DType::fp32);
  EXPECT_EQ(load("model: gpt2-124m\n").parallel.world_size, 1);
  EXPECT_EQ(load("model: gpt2-124m\ntp: 2\nworld_size: 4\ndp: 2\n").parallel.world_size, 4);
}

TEST_F(ConfigFolder, PathsAreRelativeToTheFileAndTheModelMayBeInline) {
  write(
      R"({"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 32, "vocab_size": 9})",
      "config.json");
  const RunConfig c =
      load("model: config.json\nweights: ckpt\nhardware: p.json\npipeline_schedule: ./s.csv\n");
  EXPECT_EQ(c.model.hidden, 48);
  EXPECT_EQ(c.model.name, "config.json");
  EXPECT_EQ(c.files.weights, (folder_ / "ckpt").string());
  EXPECT_EQ(c.machine.hardware, (folder_ / "p.json").string());
  EXPECT_EQ(c.parallel.schedule, (folder_ / "s.csv").string());
  EXPECT_EQ(load("model: .\n").model.hidden, 48);
  EXPECT_EQ(load(kTiny).model.name, "inline");
  EXPECT_EQ(load(kTiny, {{"data", "x.npy"}}).files.data, (fs::current_path() / "x.npy").string());
}

TEST_F(ConfigFolder, WhatIsWrittenReadsBackTheSame) {
  const std::vector<std::string> texts = {
      kTiny, "model: llama-3.1-8b\n",
      "model: gpt2-124m\ntask: generate\nprompt_length: 5\nmax_new_tokens: 7\n",
      "model: gpt2-124m\nteacher: gpt2-1558m\ndistillation_schedule: nemo-13065\nteacher_weights: t\n"
      "distillation_temperature: 2.5\ndistillation_kl: reverse\ndistillation_lm_weight: 0.25\n"
      "distillation_loss: unfused\ndistillation_cache: hidden\ndistillation_cache_dtype: fp32\n"
      "distillation_cache_limit: 7\nloss_mask: m.bin\n",
      std::string(kTiny) +
          "hardware: h\nbackend: emulated\ntp: 2\npp: 2\ndp: 3\nvirtual_pipeline_chunks: 2\ncp: 2\nep: 3\n"
          "sequence_parallel: true\nvocab_parallel: vocab-2\npipeline_schedule: gpipe\nzero_stage: 3\n"
          "recompute_granularity: selective\nrecompute_modules: mlp,layernorm\nseq_length: 77\nmbs: 3\ngbs: "
          "36\nprecision: fp32\ngrad_dtype: "
          "same\n"
          "fp8_format: hybrid\nfp8_recipe: tensorwise\nfp8_margin: 2\nfp8_amax_history_len: "
          "17\nfp8_param_gather: true\ndeterministic_mode: true\n"
          "optimizer: sgd\nlearning_rate: 3.1e-5\nweight_decay: 0.013\nclip_grad: 0\n"
          "make_vocab_size_divisible_by: 8\nddp_bucket_size: 12345\nmemory_budget: 1.5GiB\nnccl_ub: "
          "true\nsteps: 4\n"
          "warmup_steps: 2\ntimeout_s: 12.5\nseed: 18446744073709551615\nweights: \"a \\\"b\\\"\"\ndata: d: "
          "é\n"
          "save_gradients: g\nsave_weights: w\n"};
  for (const std::string& text : texts) {
    std::string input = text;
    // A plain scalar may not hold ": ".
    if (const auto at = input.find("data: d: é"); at != std::string::npos)
      input.replace(at, 11, "data: \"d: é\"");
    const RunConfig c = load(input);
    const std::string written = to_yaml(c);
    const RunConfig back = load(written);
    EXPECT_EQ(describe(back), describe(c));
    EXPECT_EQ(to_yaml(back), written);
    EXPECT_EQ(to_config_json(back.model), to_config_json(c.model));
    EXPECT_EQ(back.machine.memory_budget, c.machine.memory_budget);
    EXPECT_EQ(back.machine.nccl_ub, input.find("nccl_ub: true") != std::string::npos);
    EXPECT_EQ(back.optimizer.learning_rate, c.optimizer.learning_rate);
    EXPECT_EQ(back.measure.seed, c.measure.seed);
  }
}

TEST_F(ConfigFolder, RefusesWithFileLineKeyFoundAndExpected) {
  const std::string model = "model: qwen2.5-0.5b\n";
  struct Case {
    std::string text;
    std::vector<const char*> fragments;
  };
  const std::vector<Case> cases = {
      {model + "seq_lenght: 5\n",
       {"run.yaml:2: ", "unknown key \"seq_lenght\"", "nearest known key is seq_length"}},
      {model + "\nseq_length: abc\n", {"run.yaml:3: seq_length: ", "found \"abc\"", "whole number"}},
      {model + "seq_length: 0\n", {"seq_length", "found \"0\"", "from 1"}},
      {model + "seq_length: 1.5\n", {"seq_length", "1.5"}},
      {model + "seq_length: 99999999999999999999\n", {"seq_length", "99999999999999999999"}},
      {model + "seq_length: [1, 2]\n", {"run.yaml:2: seq_length: ", "a list"}},
      {model + "seq_length:\n", {"run.yaml:2: seq_length: ", "nothing", "whole number"}},
      {model + "seq_length: {a: 1}\n", {"run.yaml:2: seq_length: "}},
      {model + "tp: -2\n", {"tensor_model_parallel_size", "-2"}},
      {model + "tp: 2\ntensor_model_parallel_size: 2\n", {"run.yaml:3: ", "found twice"}},
      {model + "sequence_parallel: 1\n", {"sequence_parallel", "true or false"}},
      {model + "precision: int8\n", {"precision", "\"int8\"", "fp32, bf16, fp16, or fp8"}},
      {model + "fp8_format: e5m2\n", {"fp8_format", "\"e5m2\"", "none, e4m3, hybrid"}},
      {model + "fp8_recipe: mxfp7\n", {"fp8_recipe", "\"mxfp7\"", "delayed, tensorwise, blockwise, mxfp8"}},
      {model + "fp8_margin: 16\n", {"fp8_margin", "\"16\"", "from 0 to 15"}},
      {model + "fp8_amax_history_len: 0\n", {"fp8_amax_history_len", "\"0\"", "from 1"}},
      {model + "learning_rate: nan\n", {"learning_rate", "\"nan\""}},
      {model + "learning_rate: -1\n", {"learning_rate", "-1"}},
      {model + "memory_budget: 5 potatoes\n", {"run.yaml:2: memory_budget: ", "potatoes", "2GiB"}},
      {model + "memory_budget: -1\n", {"memory_budget"}},
      {model + "memory_budget: 1e30\n", {"memory_budget"}},
      {model + "pipeline_schedule: \"a\\nb\"\n", {"run.yaml:2: pipeline_schedule: ", "control"}},
      {model + "world_size: 8\ntp: 2\ndp: 3\n", {"world_size", "found 8", "2 x 1 x 1 x 3"}},
      {model + "tp: 1000000\npp: 1000000\ndp: 1000000\n", {"world_size", "more than"}},
      {model + "matrix:\n  tp: [1]\n", {"matrix", "plumbline matrix"}},
      {"tp: 2\n", {"model: missing", "preset"}},
      {"model: qwen\n", {"run.yaml:1: model: ", "\"qwen\"", "neither a preset nor a file", "did you mean"}},
      {"seq_length: 4\nmodel: {model_type: llama, hidden_size: -3}\n",
       {"run.yaml:2: model: num_hidden_layers: missing"}},
      {"model: {model_type: llama, num_hidden_layers: \"4\"}\n",
       {"num_hidden_layers", "\"4\"", "whole number"}},
      {"model: [\n", {"run.yaml:2: not valid YAML"}},
      {"a: b: c\n", {"run.yaml:1: not valid YAML"}},
      {"", {"model: missing"}},
      {"- 1\n", {"one YAML mapping"}},
      {"model: gpt2-124m\n---\nmodel: gpt2-124m\n", {"one YAML mapping"}},
      {", model: gpt2-124m\n", {"run.yaml:1: expected one YAML mapping"}},
      {"model: gpt2-124m\n}\nseq_length: 7\n", {"run.yaml:2: "}},
      {"? [1, 2]\n: 3\n", {"run.yaml:1: "}},
      {model + "recompute_modules: layernorm,mlps\n",
       {"run.yaml:2: recompute_modules: found \"layernorm,mlps\", expected some of core_attn,moe_act"}},
      {model + "recompute_modules: layernorm,\n", {"recompute_modules: found \"layernorm,\""}},
      {model + "moe_expert_capacity_factor: 0\n",
       {"run.yaml:2: moe_expert_capacity_factor: found \"0\"", "none, or a number above 0"}},
      {model + "moe_expert_capacity_factor: -1\n", {"moe_expert_capacity_factor: found \"-1\""}},
      {model + "moe_expert_capacity_factor: nan\n", {"moe_expert_capacity_factor: found \"nan\""}},
  };
  for (const Case& c : cases) {
    const std::string message = complaint(c.text);
    EXPECT_THAT(message, HasSubstr("run.yaml"));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    for (const char* fragment : c.fragments) EXPECT_THAT(message, HasSubstr(fragment));
  }
  EXPECT_THAT(complaint(model, {{"seq_length", "x"}}), HasSubstr("--set: seq_length: found \"x\""));
  EXPECT_THAT(complaint(model, {{"nonsense", "x"}}), HasSubstr("--set: found the unknown key \"nonsense\""));
  EXPECT_THROW(load_run_config((folder_ / "missing.yaml").string(), {}), InputError);
  EXPECT_THROW(load_run_config(folder_.string(), {}), InputError);
}

TEST_F(ConfigFolder, HostileYamlIsRefused) {
  std::string bomb = "model:\n  a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 20; ++i) {
    bomb += "  a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j == 0 ? "*a" : ", *a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_THAT(complaint(bomb), HasSubstr("levels and"));
  EXPECT_THAT(complaint("model: &a {b: *a}\n"), HasSubstr("levels and"));
  EXPECT_THAT(complaint("model: " + std::string(100'000, '[')), HasSubstr("not valid YAML"));
  EXPECT_THAT(complaint("model: " + std::string(100'000, '{')), HasSubstr("not valid YAML"));
  EXPECT_THAT(complaint(std::string(2'000'000, ' ')), HasSubstr("larger than"));
  EXPECT_NE(complaint(std::string("model: gpt2-124m\nhardware: \"\0\x01\"\n", 32)), "accepted");
  EXPECT_NE(complaint("\xff\xfe\x00\x00garbage"), "accepted");
}

TEST_F(ConfigFolder, WhyInvalidNamesTheKey) {
  struct Case {
    const char* text;
    const char* fragment;  // empty: valid
  };
  constexpr Case kCases[] = {
      {"tp: 2\npp: 2\ndp: 2\ngbs: 4\n", ""},
      {"tp: 4\nmake_vocab_size_divisible_by: 1\n", ""},  // two ranks share a key/value head
      {"tp: 3\n", "tensor_model_parallel_size: found 3, expected a divisor of the 4 attention heads"},
      {"tp: 8\n", "tensor_model_parallel_size: found 8"},
      {"pp: 5\n", "pipeline_model_parallel_size: 5 stages"},
      {"pp: 2\nvirtual_pipeline_chunks: 3\n", "6 stages"},
      {"dp: 2\ngbs: 3\n", "global_batch_size: found 3, expected a multiple of micro_batch_size x data"},
      {"mbs: 2\ngbs: 1\n", "global_batch_size: found 1"},
      {"world_size: 3\ntp: 2\n", "world_size: found 3, expected a multiple of"},
      {"tp: 2\nworld_size: 1\n", "world_size: found 1"},
      {"seq_length: 100000\n", ""},  // rotary positions have no end
      {"tp: 4\nseq_length: 6\n", ""},
      {"tp: 4\nseq_length: 6\nsequence_parallel: true\n", "sequence_parallel: found true with seq_length 6"},
      {"seq_length: 7\nsequence_parallel: true\n", ""},  // one tensor rank: not in effect
      {"cp: 2\nseq_length: 12\n", ""},
      {"cp: 2\nseq_length: 12\nprefix_length: 4\n", "context_parallel_size: found 2 with a prefix_length"},
      {"frozen: lora\nlora_rank: 4096\n", "lora_rank: found 4096, expected at most the hidden size"},
      {"frozen: lora\npp: 2\nvocab_parallel: vocab-1\n",
       "frozen: found lora with vocab_parallel vocab-1, expected none"},
      {"frozen: lora\n", ""},
      {"frozen: lora\npp: 2\npipeline_schedule: zb-h1\n", "frozen: found lora with pipeline_schedule zb-h1"},
      {"frozen: lora\ndp: 2\nzero_stage: 2\n", "frozen: found lora with zero_stage 2, expected none"},
      {"cp: 2\nseq_length: 6\n",
       "context_parallel_size: found 2 with seq_length 6, expected a seq_length that is a multiple of 2 x"},
      {"cp: 2\ntp: 2\nseq_length: 16\ncp_comm_type: a2a\n",
       "cp_comm_type: found a2a with context_parallel_size 2 and 1 key/value heads per tensor rank"},
      {"cp: 2\nseq_length: 16\ncp_comm_type: a2a\n", ""},
      {"cp: 4\nseq_length: 16\ncp_comm_type: a2a+p2p\nhierarchical_context_parallel_sizes: 2,2\n", ""},
      {"cp_comm_type: a2a+p2p\n", ""},  // one rank: nothing to exchange
      {"cp: 4\nseq_length: 16\ncp_comm_type: a2a+p2p\n",
       "hierarchical_context_parallel_sizes: found none with cp_comm_type a2a+p2p, expected two sizes"},
      {"cp: 8\nseq_length: 16\ncp_comm_type: a2a+p2p\nhierarchical_context_parallel_sizes: 2,2\n",
       "hierarchical_context_parallel_sizes: found 2,2 with cp_comm_type a2a+p2p, expected two sizes of at "
       "least "
       "2 that multiply to context_parallel_size 8"},
      {"cp: 4\nseq_length: 16\ncp_comm_type: a2a+p2p\nhierarchical_context_parallel_sizes: 4,1\n",
       "found 4,1 with cp_comm_type a2a+p2p"},
      {"cp: 8\nseq_length: 16\ncp_comm_type: a2a+p2p\nhierarchical_context_parallel_sizes: 4,2\n",
       "cp_comm_type: found a2a+p2p with an exchange of heads over 4 and 2 key/value heads per tensor rank"},
      {"cp: 2\nseq_length: 16\nfp8_format: hybrid\n",
       "fp8_format: found hybrid with micro_batch_size x seq_length / context_parallel_size = 8, expected a "
       "multiple"},
      {"cp: 4\nseq_length: 16\nhierarchical_context_parallel_sizes: 2,2\n",
       "hierarchical_context_parallel_sizes: found 2,2 with cp_comm_type p2p and context_parallel_size 4"},
      {"cp: 2\ntp: 4\nseq_length: 16\nsequence_parallel: true\n", ""},
      {"cp: 2\ntp: 4\nseq_length: 12\nsequence_parallel: true\n",
       "sequence_parallel: found true with seq_length 12 over 2 context ranks, expected one that 4"},
      {"tp: 2\ntp_comm_overlap: true\n", "tp_comm_overlap: found true with sequence_parallel false"},
      {"tp_comm_overlap: true\n", ""},
      {"overlap_param_gather: true\n",
       "overlap_param_gather: found true with zero_stage 0, expected zero_stage 1"},
      {"overlap_param_gather: true\nsoftware: megatron-core\n", ""},
      {"overlap_param_gather: true\nzero_stage: 1\n", ""},
      {"cuda_graph_impl: local\ncuda_graph_modules: attn,mlp\nsoftware: megatron-core\n", ""},
      {"cuda_graph_impl: local\ncuda_graph_modules: attn,\nsoftware: megatron-core\n",
       "cuda_graph_modules: found attn,, expected all or some of attn,mlp"},
      {"cuda_graph_modules: attn\nsoftware: megatron-core\n",
       "cuda_graph_modules: found attn with cuda_graph_impl none"},
      {"overlap_moe_expert_parallel_comm: true\n",
       "overlap_moe_expert_parallel_comm: found true with expert_model_parallel_size 1"},
      {"overlap_moe_expert_parallel_comm: true\nsoftware: megatron-core\n",
       "overlap_moe_expert_parallel_comm: found true with expert_model_parallel_size 1"},
      {"num_distributed_optimizer_instances: 2\nzero_stage: 1\nworld_size: 4\ngbs: 4\n", ""},
      {"num_distributed_optimizer_instances: 4\nzero_stage: 3\nworld_size: 4\ngbs: 4\n", ""},
      {"num_distributed_optimizer_instances: 2\nworld_size: 4\ngbs: 4\n",
       "num_distributed_optimizer_instances: found 2 with zero_stage 0"},
      {"num_distributed_optimizer_instances: 3\nzero_stage: 2\nworld_size: 4\ngbs: 4\n",
       "num_distributed_optimizer_instances: found 3 with 4 ranks that hold the same parameters, expected a "
       "divisor"},
      {"num_distributed_optimizer_instances: 2\nzero_stage: 3\nzero_hpz_partition_size: 2\nworld_size: "
       "4\ngbs: 4\n",
       "zero_hpz_partition_size: found 2 with 2 ranks that hold the same parameters in an instance, expected "
       "a divisor that is less"},
      {"num_distributed_optimizer_instances: 2\nzero_stage: 3\nzero_hpz_partition_size: 2\nworld_size: "
       "8\ngbs: 8\n",
       ""},
      {"num_distributed_optimizer_instances: 2\nsoftware: megatron-core\n",
       "num_distributed_optimizer_instances: found 2 with zero_stage 0"},
      {"num_distributed_optimizer_instances: 3\nsoftware: megatron-core\nzero_stage: 1\n",
       "ranks that hold the same parameters, expected a divisor"},
      {"world_size: 4\ngbs: 4\nzero_stage: 3\nzero_hpz_partition_size: 2\n", ""},
      {"world_size: 4\ngbs: 4\nzero_stage: 2\nzero_hpz_partition_size: 2\n",
       "zero_hpz_partition_size: found 2 with zero_stage 2, which keeps parameters whole; expected "
       "zero_stage 3"},
      {"world_size: 4\ngbs: 4\nzero_stage: 3\nzero_hpz_partition_size: 3\n",
       "found 3 with 4 ranks that hold the same parameters, expected a divisor that is less"},
      {"world_size: 4\ngbs: 4\nzero_stage: 3\nzero_hpz_partition_size: 4\n",
       "found 4 with 4 ranks that hold the same parameters, expected a divisor that is less"},
      {"world_size: 4\ngbs: 4\nzero_stage: 3\nzero_hpz_partition_size: 2\nsoftware: megatron-core\n",
       "zero_hpz_partition_size: found 2 with software megatron-core, expected 1"},
      {"world_size: 8\npp: 2\ngbs: 8\nzero_stage: 3\nzero_hpz_partition_size: 2\nvocab_parallel: vocab-1\n",
       ""},
      {"overlap_param_gather: false\noverlap_grad_reduce: auto\n", ""},
      {"overlap_param_gather: true\nzero_stage: 2\npp: 2\ngbs: 2\nvocab_parallel: vocab-1\n", ""},
      {"overlap_param_gather: true\nzero_stage: 3\npp: 2\ngbs: 2\nvocab_parallel: vocab-1\n", ""},
      {"overlap_param_gather: true\nzero_stage: 1\nfp8_format: hybrid\nseq_length: 16\n", ""},
      {"gbs: 2000000000\n", "micro-batches"},
      {"mbs: 2000000000\ngbs: 2000000000\n", "micro_batch_size"},
  };
  for (const Case& c : kCases) {
    const std::string reason = why_invalid(load(kTiny + std::string(c.text))).value_or("");
    if (*c.fragment == '\0') {
      EXPECT_EQ(reason, "") << c.text;
    } else {
      EXPECT_THAT(reason, HasSubstr(c.fragment)) << c.text;
    }
  }
  const RunConfig odd = load(
      "model: {model_type: llama, hidden_size: 48, intermediate_size: 96, num_hidden_layers: 4, vocab_size: "
      "100, "
      "num_attention_heads: 12, num_key_value_heads: 4, max_position_embeddings: 32}\ntp: 6\n");
  EXPECT_THAT(why_invalid(odd).value_or(""),
              HasSubstr("found 6, expected a divisor or a multiple of the 4 key"));
  const RunConfig long_gpt = load("model: gpt2-124m\nseq_length: 1025\n");
  EXPECT_THAT(why_invalid(long_gpt).value_or(""), HasSubstr("1024 learned positions"));
}

TEST_F(ConfigFolder, EightBitProductsWantMultiplesOfSixteen) {
  struct Case {
    const char* text;
    const char* fragment;  // empty: valid
  };
  constexpr Case kCases[] = {
      {"seq_length: 32\n", ""},
      {"seq_length: 32\ntp: 2\n", ""},
      {"seq_length: 8\nmbs: 2\ngbs: 2\n", ""},
      {"seq_length: 24\n", "found hybrid with micro_batch_size x seq_length = 24, expected a multiple of 16"},
      {"seq_length: 32\nfp8_format: e4m3\ntp: 4\n",
       "found e4m3 with feed-forward columns per tensor rank = 24"},
      {"seq_length: 24\nfp8_format: none\n", ""},
      {"seq_length: 32\nmodel: {model_type: llama, hidden_size: 40, intermediate_size: 96, "
       "num_hidden_layers: 4, "
       "vocab_size: 100, num_attention_heads: 4, head_dim: 16, max_position_embeddings: 32}\n",
       "hidden columns = 40"},
      {"seq_length: 32\nmodel: {model_type: llama, hidden_size: 32, intermediate_size: 96, "
       "num_hidden_layers: 4, "
       "vocab_size: 100, num_attention_heads: 4, num_key_value_heads: 1, max_position_embeddings: 32}\ntp: "
       "4\n",
       "query, key and value columns per tensor rank = 24"},
      {"seq_length: 32\nmodel: {model_type: llama, hidden_size: 32, intermediate_size: 96, "
       "num_hidden_layers: 4, "
       "vocab_size: 100, num_attention_heads: 2, num_key_value_heads: 2, head_dim: 8, "
       "max_position_embeddings: 32}\n"
       "tp: 2\n",
       "query, key and value columns per tensor rank = 24"},
  };
  for (const Case& c : kCases) {
    std::string text = c.text;
    if (text.find("fp8_format") == std::string::npos) text += "fp8_format: hybrid\n";
    if (text.find("model:") == std::string::npos) text += kTiny;
    const std::string reason = why_invalid(load(text)).value_or("");
    if (*c.fragment == '\0') {
      EXPECT_EQ(reason, "") << c.text;
    } else {
      EXPECT_THAT(reason, HasSubstr("fp8_format: found")) << c.text;
      EXPECT_THAT(reason, HasSubstr(c.fragment)) << c.text;
    }
  }
}

TEST_F(ConfigFolder, PrecisionFp8IsShortForItsUsualMeaning) {
  struct Case {
    const char* text;
    Fp8Format format;
    DType precision;
  };
  constexpr Case kCases[] = {
      {"precision: fp8\n", Fp8Format::hybrid, DType::bf16},
      {"precision: fp8\nfp8_format: e4m3\n", Fp8Format::e4m3, DType::bf16},
      {"fp8_format: e4m3\nprecision: fp8\n", Fp8Format::e4m3, DType::bf16},
      {"precision: fp32\nfp8_format: hybrid\n", Fp8Format::hybrid, DType::fp32},
      {"precision: bf16\n", Fp8Format::none, DType::bf16},
  };
  for (const Case& c : kCases) {
    const RunConfig config = load(std::string(c.text) + kTiny);
    EXPECT_EQ(config.numerics.fp8.format, c.format) << c.text;
    EXPECT_EQ(config.numerics.precision, c.precision) << c.text;
  }
}

TEST_F(ConfigFolder, ATeacherMustFitTheStudent) {
  const std::string teacher =
      "teacher: {model_type: llama, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 3, "
      "vocab_size: "
      "100, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 64}\n";
  const auto with = [&](const std::string& more) {
    return load(
        "model: {model_type: llama, hidden_size: 24, intermediate_size: 48, num_hidden_layers: 4, "
        "vocab_size: 100, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: "
        "64}\n" +
        more);
  };
  struct Case {
    std::string text;
    const char* fragment;  // empty: valid
  };
  const std::vector<Case> cases = {
      {teacher + "pp: 3\ngbs: 4\ntp: 2\n", ""},
      {teacher + "distillation_loss: unfused\ndistillation_temperature: 2\n", ""},
      {"teacher: gpt2-124m\n", "teacher: gpt2-124m has a vocabulary of 50257, expected the 100 of"},
      {teacher + "pp: 4\ngbs: 4\n", "4 stages, expected at most the 3 layers of the teacher"},
      {teacher + "pipeline_schedule: gpipe\n", "pipeline_schedule: found gpipe with 1 chunks and a teacher"},
      {teacher + "virtual_pipeline_chunks: 2\n", "with 2 chunks and a teacher"},
      {teacher + "vocab_parallel: vocab-1\n", "vocab_parallel: found vocab-1 with a teacher"},
      {teacher + "tp: 2\ndistillation_loss: unfused\n", "distillation_loss: found unfused with tensor_model"},
      {teacher + "distillation_kl: reverse\ndistillation_loss: unfused\n", "distillation_kl reverse"},
      {teacher + "loss_mask: m.bin\n", "loss_mask: found a path without data"},
      {"loss_mask: m.bin\n", "loss_mask: found a path without data"},
      {"pipeline_schedule: bubble-fill\n", "pipeline_schedule: found bubble-fill, which orders a teacher"},
  };
  for (const Case& c : cases) {
    const std::string reason = why_invalid(with(c.text)).value_or("");
    if (*c.fragment == '\0') {
      EXPECT_EQ(reason, "") << c.text;
    } else {
      EXPECT_THAT(reason, HasSubstr(c.fragment)) << c.text;
      EXPECT_EQ(reason.find('\n'), std::string::npos);
    }
  }
  for (const char* line :
       {"distillation_cache_limit: -1", "distillation_cache_limit: 1.5", "distillation_temperature: 0",
        "distillation_temperature: nan", "distillation_lm_weight: 1.5", "distillation_kl: both",
        "distillation_schedule: 1f1b", "distillation_cache_dtype: bf16"}) {
    EXPECT_THROW(with(teacher + line + "\n"), InputError) << line;
  }
}

TEST_F(ConfigFolder, WhyUnsupportedNamesTheKey) {
  for (const char* lines :
       {"", "precision: fp32\npipeline_schedule: gpipe\n", "pipeline_schedule: dualpipe\n",
        "virtual_pipeline_chunks: 2\npipeline_schedule: interleaved\n", "sequence_parallel: true\n",
        "zero_stage: 3\n", "recompute_granularity: full\nrecompute_num_layers: 3\n",
        "backend: emulated\nhardware: h100-sxm-80gb\n"}) {
    EXPECT_EQ(why_unsupported(load(kTiny + std::string(lines))), std::nullopt) << lines;
  }
  for (const char* line : {"expert_model_parallel_size: 2", "precision: fp16"}) {
    const std::string key = std::string(line).substr(0, std::string(line).find(':'));
    EXPECT_THAT(why_unsupported(load(std::string(kTiny) + line + "\n")).value_or(""),
                HasSubstr(key + ": found"));
  }
  for (const char* line : {"fp8_recipe: mxfp8", "fp8_recipe: blockwise", "fp8_param_gather: true",
                           "disable_parameter_transpose_cache: true"}) {
    const std::string key = std::string(line).substr(0, std::string(line).find(':'));
    const std::string text = kTiny + std::string("software: s\nfp8_format: hybrid\n") + line + "\n";
    EXPECT_EQ(why_unpredictable(load(text)), std::nullopt) << line;  // other software's own
    RunConfig config = load(text);
    config.machine.software = "plumbline";
    EXPECT_THAT(why_unsupported(config).value_or(""), HasSubstr(key + ": found")) << line;
  }
  for (const char* backend : {"cpu", "cuda", "emulated\nhardware: h100-sxm-80gb"}) {
    const std::string text = kTiny + std::string("deterministic_mode: true\nbackend: ") + backend + "\n";
    EXPECT_TRUE(load(text).numerics.deterministic_mode) << backend;
    EXPECT_EQ(why_invalid(load(text)), std::nullopt) << backend;
  }
  EXPECT_FALSE(load(kTiny).numerics.deterministic_mode);
  EXPECT_THAT(
      why_invalid(load(kTiny + std::string("software: s\ndeterministic_mode: true\n"))).value_or(""),
      HasSubstr(
          "deterministic_mode: found true with software s, whose deterministic kernels are not predicted"));
  EXPECT_THAT(why_unsupported(load(std::string(kTiny) + "backend: emulated\n")).value_or(""),
              HasSubstr("hardware: missing"));
  const std::string shared = kTiny + std::string("context_parallel_size: 2\n");
  EXPECT_EQ(why_unsupported(load(shared)), std::nullopt);
  EXPECT_EQ(why_unsupported(load(shared + "cp_comm_type: all_gather\n")), std::nullopt);
  EXPECT_EQ(why_unpredictable(load(shared + "software: s\n")), std::nullopt);
  const std::string adapted = kTiny + std::string("frozen: lora\n");
  EXPECT_EQ(why_unsupported(load(adapted)), std::nullopt);
  EXPECT_EQ(why_unpredictable(load(adapted + "software: s\n")), std::nullopt);
  EXPECT_EQ(why_unsupported(load(shared + "cp_comm_type: all_gather\nbackend: cuda\n")), std::nullopt);
  EXPECT_THAT(why_unsupported(load(shared + "attention_backend: unfused\n")).value_or(""),
              HasSubstr("attention_backend: found unfused with backend cpu, expected fused"));
  EXPECT_EQ(why_unsupported(load(shared + "attention_backend: unfused\nbackend: emulated\n"
                                          "hardware: h100-sxm-80gb\n")),
            std::nullopt);
  EXPECT_EQ(why_unsupported(load(shared + "fp8_format: e4m3\n")), std::nullopt);
  RunConfig exchanged = load(shared + "cp_comm_type: a2a\n");
  EXPECT_EQ(why_unsupported(exchanged), std::nullopt);
  EXPECT_EQ(why_unsupported(load(kTiny + std::string("cp: 4\nseq_length: 16\ncp_comm_type: a2a+p2p\n"
                                                     "hierarchical_context_parallel_sizes: 2,2\n"))),
            std::nullopt);
  exchanged.model.qk_norm = true;
  EXPECT_EQ(why_unsupported(exchanged), std::nullopt);
}

TEST_F(ConfigFolder, WhatOnlyTheEmulatedBackendDoesIsPredictedOnNamedHardware) {
  for (const std::string line : {"precision: fp16\n", "attention_backend: unfused\n"}) {
    const std::string named = line + "hardware: v100-sxm-32gb\n";
    EXPECT_TRUE(why_unsupported(load(kTiny + named))) << line;
    EXPECT_EQ(why_unsupported(load(kTiny + named + "backend: emulated\n")), std::nullopt) << line;
    EXPECT_EQ(why_unpredictable(load(kTiny + named)), std::nullopt) << line;
    EXPECT_TRUE(why_unpredictable(load(kTiny + line))) << line;
  }
}

TEST_F(ConfigFolder, SplitVocabulariesAndLayerDistributions) {
  struct Case {
    const char* lines;
    const char* reason;  // empty: valid
  };
  for (const Case& c : {
           Case{"vocab_parallel: vocab-1\npp: 2\n", ""},
           {"vocab_parallel: vocab-2\npp: 2\npipeline_schedule: v-half\n", ""},
           {"vocab_parallel: interlaced\npp: 2\n", ""},
           {"vocab_parallel: interlaced\npp: 2\npipeline_schedule: v-half\n", "v-half, expected 1f1b"},
           {"vocab_parallel: vocab-2\npp: 2\npipeline_schedule: gpipe\n", "expected 1f1b or v-half"},
           {"pipeline_schedule: vocab-1\n", "expected 1f1b with vocab_parallel: vocab-1"},
           {"pipeline_schedule: v-half-vocab-2\n", "expected v-half with vocab_parallel: vocab-2"},
           {"vocab_parallel: vocab-1\npp: 2\ntp: 2\nsequence_parallel: true\n", ""},
           {"vocab_parallel: vocab-1\npp: 2\ntp: 2\nsequence_parallel: true\nsoftware: megatron-vocabulary\n",
            "expected it off"},
           {"layer_distribution: balanced\npp: 2\n", ""},
           {"layer_distribution: 3,1\npp: 2\n", ""},
           {"layer_distribution: 3,2\npp: 2\n", "found 5 layers in all, expected the 4"},
           {"layer_distribution: 4,0\npp: 2\n", ""},
           {"layer_distribution: 0,4\npp: 2\n", "found no layer on stage 0 of 2"},
           {"layer_distribution: 0,4\npp: 2\nsoftware: megatron-2022\n", ""},
           {"layer_distribution: 2,0,2\npp: 3\nsoftware: megatron-2022\n", "found no layer on stage 1 of 3"},
           {"layer_distribution: 0,1,1,1,1,0\npp: 6\nsoftware: megatron-2022\n", ""},
           {"layer_distribution: 0,1,1,1,1,0\npp: 6\n", "expected at most the 4 layers"},
           {"layer_distribution: fewest\n", "found \"fewest\", expected even, balanced, or"},
       }) {
    const std::string reason = why_invalid(load(std::string(kTiny) + c.lines)).value_or("");
    if (*c.reason == 0) {
      EXPECT_EQ(reason, "") << c.lines;
    } else {
      EXPECT_THAT(reason, HasSubstr(c.reason)) << c.lines;
    }
  }
  RunConfig few;
  few.model = *find_preset("gpt2-124m");
  few.model.vocab = 5;
  few.parallel.pipeline = few.parallel.world_size = 6;
  few.parallel.vocab_parallel = VocabPasses::two_barriers;
  few.batch.seq_length = 16;
  EXPECT_THAT(why_invalid(few).value_or(""), HasSubstr("at least one token id for each of the 6 ranks"));
}

TEST_F(ConfigFolder, SwitchesThatDoNotGoTogether) {
  struct Case {
    const char* lines;
    const char* reason;  // empty: valid
  };
  constexpr Case kCases[] = {
      {"model: qwen2.5-0.5b\nprefix_length: 16\n", ""},
      {"model: qwen2.5-0.5b\nprefix_length: 33\n",
       "prefix_length: found 33, expected at most the seq_length 32"},
      {"model: bloom-560m\nprefix_length: 3\n", "prefix_length: found 3 with bloom-560m, which has ALiBi"},
      {"model: starcoder2-3b\nprefix_length: 3\n", "has a sliding window"},
      {"model: gpt2-124m\nteacher: falcon-rw-1b\nprefix_length: 3\n", "falcon-rw-1b, which has ALiBi"},
      {"model: gpt2-124m\nprefix_length: 3\nsoftware: megatron-core\n", "with software megatron-core"},
      {"model: glm-130b\nfp8_format: hybrid\n", "fp8_format: found hybrid with glm-130b, whose residual"},
      {"model: phi-2\nfp8_format: hybrid\nhidden_dropout: 0.1\n", ""},
      {"model: phi-2\nvocab_parallel: vocab-1\npp: 2\n",
       "vocab_parallel: found vocab-1 with phi-2, whose output layer has biases"},
      {"model: baichuan2-7b\nvocab_parallel: vocab-2\npp: 2\n", "has normalised rows"},
      {"model: glm-10b\nseq_length: 1024\n", ""},
      {"model: glm-10b\nseq_length: 1025\n", "at most the 1024 learned positions"},
  };
  for (const Case& c : kCases) {
    const std::string text = c.lines;
    const bool has_length = text.find("seq_length:") != std::string::npos;
    const std::string reason = why_invalid(load(text + (has_length ? "" : "seq_length: 32\n"))).value_or("");
    if (*c.reason == '\0') {
      EXPECT_EQ(reason, "") << c.lines;
    } else {
      EXPECT_THAT(reason, HasSubstr(c.reason)) << c.lines;
    }
  }
}

TEST(RunConfig, DerivedSizes) {
  RunConfig c;
  c.model = *find_preset("gpt2-124m");
  EXPECT_EQ(c.padded_vocab(), 50304);
  c.parallel.tensor = 4;
  EXPECT_EQ(c.padded_vocab(), 50688);
  c.parallel.make_vocab_size_divisible_by = 1;
  EXPECT_EQ(c.padded_vocab(), 50260);
  c.parallel.pipeline = 2;
  EXPECT_EQ(c.parallel.vocab_shards(), 4);
  c.parallel.vocab_parallel = VocabPasses::two_barriers;
  EXPECT_EQ(c.parallel.vocab_shards(), 8);
  EXPECT_EQ(c.padded_vocab(), 50264);
  EXPECT_TRUE(c.layout().vocab_parallel);
}

TEST(LayerDistribution, EvenBalancedAndGiven) {
  EXPECT_EQ(even_layers(24, 4), (std::vector<int>{6, 6, 6, 6}));
  EXPECT_EQ(even_layers(7, 3), (std::vector<int>{3, 2, 2}));
  EXPECT_EQ(even_layers(3, 3), (std::vector<int>{1, 1, 1}));
  RunConfig c;
  c.model = *find_preset("gpt2-124m");  // 12 layers of 2·h·12h + 2·h·s, output layer 2·h·v
  c.batch.seq_length = 1024;
  EXPECT_NEAR(output_layer_in_layers(c), 50304 / (12.0 * 768 + 1024), 1e-12);  // 4.9 layers
  EXPECT_EQ(layers_per_stage(c, 2), (std::vector<int>{6, 6}));
  c.parallel.layer_distribution = "balanced";
  EXPECT_EQ(layers_per_stage(c, 2), (std::vector<int>{8, 4}));        // 8 against 8.9; 9 against 7.9
  EXPECT_EQ(layers_per_stage(c, 4), (std::vector<int>{4, 4, 4, 0}));  // 4.9; with one layer there 5.9
  EXPECT_EQ(layers_per_stage(c, 5), (std::vector<int>{3, 3, 3, 3, 0}));
  c.batch.seq_length = 1 << 20;  // the output layer is next to nothing
  EXPECT_EQ(layers_per_stage(c, 5), (std::vector<int>{2, 2, 3, 3, 2}));
  c.batch.seq_length = 1024;
  c.parallel.pipeline = 2;
  c.parallel.vocab_parallel = VocabPasses::one_barrier;
  EXPECT_EQ(layers_per_stage(c, 2), (std::vector<int>{6, 6}));
  c.parallel.layer_distribution = "7,5";
  EXPECT_EQ(layers_per_stage(c, 2), (std::vector<int>{7, 5}));
  EXPECT_THAT([&] { layers_per_stage(c, 3); },
              testing::ThrowsMessage<InputError>(HasSubstr("found 2 numbers")));
}

TEST(ParseBytes, UnitsAndNonsense) {
  EXPECT_EQ(parse_bytes("2GiB", "k"), 2 * kGiB);
  EXPECT_EQ(parse_bytes("512 MiB", "k"), 512 * kMiB);
  EXPECT_EQ(parse_bytes("1e9", "k").value, 1'000'000'000);
  EXPECT_EQ(parse_bytes("1.5KiB", "k").value, 1536);
  EXPECT_EQ(parse_bytes("80GB", "k").value, 80'000'000'000);
  EXPECT_EQ(parse_bytes("0", "k").value, 0);
  EXPECT_EQ(parse_bytes("0.6", "k").value, 1);
  // 0 stands for no bound: a fraction of a byte must not.
  for (const char* text :
       {"", "GiB", "-1", "nan", "inf", "1e300", "2GiBs", "2 2", "0x10", "1,5GiB", "0.4", "1e-10GiB"}) {
    EXPECT_THROW(parse_bytes(text, "k"), InputError) << text;
  }
}

TEST(ConfigKeys, NamesAreUnique) {
  std::vector<std::string> names;
  for (const ConfigKey& key : config_keys()) {
    EXPECT_EQ(find_config_key(key.name), &key);
    EXPECT_EQ(find_config_key(key.flag()), &key);
    EXPECT_TRUE(key.alias.empty() || find_config_key(key.alias) == &key);
    EXPECT_FALSE(key.expected.empty());
  }
  EXPECT_EQ(find_config_key(""), nullptr);
}

}  // namespace
}  // namespace plumbline
