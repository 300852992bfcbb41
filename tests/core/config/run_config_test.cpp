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
#include "core/config_text/config_keys.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/config_text/load_config.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::run_config_test {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

class ConfigFolder : public testing::Test, protected test::TemporaryFolder {
 protected:
  std::string write(const std::string& text, const char* name = "run.yaml") {
    return TemporaryFolder::write(name, text);
  }
  RunConfig load(const std::string& text, const Overrides& overrides = {}) {
    return load_run_config(write(text), overrides);
  }
  std::string complaint(const std::string& text, const Overrides& overrides = {}) {
    return test::refusal_of([&] { load(text, overrides); });
  }
};

constexpr const char* kTiny =
    "model: {model_type: llama, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 4, "
    "vocab_size: 100, num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 32}\n";

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
      R"({"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 9, "vocab_size": 9})",
      "config.json");
  const RunConfig c =
      load("model: config.json\nweights: ckpt\nhardware: p.json\npipeline_schedule: ./s.csv\n");
  EXPECT_EQ(c.model.hidden, 48);
  EXPECT_EQ(c.model.name, "config.json");
  EXPECT_EQ(c.files.weights, (folder_ / "ckpt").string());
  EXPECT_EQ(c.machine.hardware, (folder_ / "p.json").string());
  EXPECT_EQ(c.parallel.pp.schedule, (folder_ / "s.csv").string());
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
          "recompute_granularity: selective\nrecompute_modules: mlp,layernorm\nseq_length: 77\nmbs: 3\n"
          "gbs: 36\nprecision: fp32\ngrad_dtype: same\nfp8_format: hybrid\nfp8_recipe: tensorwise\n"
          "fp8_margin: 2\nfp8_amax_history_len: 17\nfp8_param_gather: true\ndeterministic_mode: true\n"
          "optimizer: sgd\nlearning_rate: 3.1e-5\nweight_decay: 0.013\nclip_grad: 0\nsteps: 4\n"
          "make_vocab_size_divisible_by: 8\nddp_bucket_size: 12345\nmemory_budget: 1.5GiB\nnccl_ub: true\n"
          "warmup_steps: 2\ntimeout_s: 12.5\nseed: 18446744073709551615\nweights: \"a \\\"b\\\"\"\n"
          "data: \"d: é\"\nsave_gradients: g\nsave_weights: w\n"};
  for (const std::string& input : texts) {
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
  const std::pair<std::string, std::vector<const char*>> cases[] = {
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
      {"model: Qwen/Qwen3-Next-80B-A3B-Instruct\n",
       {"run.yaml:1: model: ", "attention and linear attention"}},
      {"model: Qwen/Qwen3.5-35B-A3B\n", {"run.yaml:1: model: ", "attention and linear attention"}},
      {"model: MiniMaxAI/MiniMax-M9\n", {"neither a preset nor a file"}},
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
  for (const auto& [text, fragments] : cases) {
    const std::string message = complaint(text);
    EXPECT_THAT(message, HasSubstr("run.yaml"));
    EXPECT_THAT(message, Not(HasSubstr("\n")));
    for (const char* fragment : fragments) EXPECT_THAT(message, HasSubstr(fragment));
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
  EXPECT_THAT(complaint(std::string(2'000'000, ' ')), HasSubstr("expected a file of at most"));
  EXPECT_NE(complaint(std::string("model: gpt2-124m\nhardware: \"\0\x01\"\n", 32)), "accepted");
  EXPECT_NE(complaint("\xff\xfe\x00\x00garbage"), "accepted");
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
  c.parallel.pp.vocab_parallel = VocabPasses::two_barriers;
  EXPECT_EQ(c.parallel.vocab_shards(), 8);
  EXPECT_EQ(c.padded_vocab(), 50264);
  EXPECT_TRUE(c.layout().vocab_parallel);
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
}  // namespace plumbline::run_config_test
