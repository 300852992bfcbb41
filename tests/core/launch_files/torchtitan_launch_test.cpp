// Job configurations of torchtitan as configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/launch_file.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::torchtitan_launch_test {
namespace {

using testing::HasSubstr;

constexpr const char* kTitanJob = "[model]\nflavor = \"8B\"\n[activation_checkpoint]\nmode = \"none\"\n";

LaunchFile titan_file(const std::string& more) {
  return read_launch_file(kTitanJob + more, "job.toml").value();
}

std::map<std::string, std::string> titan_settings(const std::string& more) {
  std::map<std::string, std::string> settings;
  const LaunchFile file = titan_file(more);
  file.require_modelled();
  for (const LaunchSetting& each : file.settings) settings[each.key] = each.value;
  return settings;
}

std::string titan_complaint(const std::string& text, const std::string& name = "job.toml") {
  return test::refusal_of([&] { read_launch_file(text, name).value().require_modelled(); });
}

TEST(TorchtitanLaunch, KeysBecomeSettings) {
  struct Case {
    const char* text;
    const char* key;
    const char* value;
  };
  const Case cases[] = {
      {"", "model", "llama-3.1-8b"},
      {"", "software", "torchtitan"},
      {"", "zero_stage", "3"},
      {"", "precision", "bf16"},
      {"", "grad_dtype", "fp32"},
      {"", "micro_batch_size", "8"},
      {"", "seq_length", "2048"},
      {"", "recompute_granularity", "none"},
      {"[training]\nlocal_batch_size = 2\nseq_len = 8_192\n", "seq_length", "8192"},
      {"[training]\nbatch_size = 2\n", "micro_batch_size", "2"},
      {"[training]\nglobal_batch_size = 64\n", "global_batch_size", "64"},
      {"[training]\nmixed_precision_param = \"float32\"\n", "precision", "fp32"},
      {"[training]\nmax_norm = 0.5\n", "clip_grad", "0.5"},
      {"[optimizer]\nlr = 3e-4\n", "learning_rate", "0.0003"},
      {"[training]\ntensor_parallel_degree = 4\n", "tensor_model_parallel_size", "4"},
      {"[parallelism]\ntensor_parallel_degree = 4\n", "sequence_parallel", "true"},
      {"[parallelism]\ndata_parallel_shard_degree = 8\ntensor_parallel_degree = 4\n", "world_size", "32"},
      {"[parallelism]\ndata_parallel_replicate_degree = 2\n", "num_distributed_optimizer_instances", "2"},
      {"[parallelism]\ncontext_parallel_degree = 2\n", "cp_comm_type", "all_gather"},
      {"[parallelism]\ncontext_parallel_degree = 2\ncontext_parallel_rotate_method = \"alltoall\"\n",
       "cp_comm_type", "p2p"},
      {"[parallelism]\npipeline_parallel_degree = 4\n", "pipeline_schedule", "1f1b"},
      {"[parallelism]\npipeline_parallel_degree = 4\n", "micro_batch_size", "1"},
      {"[parallelism]\npipeline_parallel_degree = 4\n", "layer_distribution", "8,9,8,7"},
      {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"Interleaved1F1B\"\n",
       "layer_distribution", "8,9,8,7"},
      {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"Interleaved1F1B\"\n"
       "pipeline_parallel_layers_per_stage = 6\n",
       "virtual_pipeline_chunks", "3"},
      {"[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"ZBVZeroBubble\"\n",
       "pipeline_schedule", "zb-v"},
      {"[compile]\nenable = true\n", "software", "torchtitan-2025"},
      {"[training]\ncompile = true\n", "software", "torchtitan-2025"},
      {"[compile]\nenable = true\ncomponents = [\"loss\"]\n", "software", "torchtitan"},
      {"[compile]\nenable = true\n[parallelism]\nenable_async_tensor_parallel = true\n", "software",
       "torchtitan-2025-async"},
      {"[compile]\nenable = true\n[float8]\nenable_float8_linear = true\n", "software", "torchtitan-float8"},
      {"[compile]\nenable = true\n[float8]\nenable_float8_linear = true\n"
       "enable_fsdp_float8_all_gather = true\n",
       "software", "torchtitan-2025-float8"},
      {"[compile]\nenable = true\n[float8]\nenable_float8_linear = true\n", "fp8_format", "hybrid"},
      {"[debug]\ndeterministic = true\n", "deterministic_mode", "true"},
  };
  for (const Case& each : cases) EXPECT_EQ(titan_settings(each.text)[each.key], each.value) << each.text;
}

TEST(TorchtitanLaunch, RecomputesLayersByNumber) {
  const std::string cases[][4] = {
      // granularity, method, layers; the method's and its layers' defaults: ""
      {"", "full", "interval", "2"},
      {"selective_ac_option = 3\n", "full", "interval", "3"},
      {"selective_ac_option = \"0\"\n", "full", "", ""},
      {"selective_ac_option = \"1\"\n", "full", "", ""},
      {"selective_ac_option = \"op\"\n", "selective", "", ""},
      {"mode = \"full\"\nselective_ac_option = \"3\"\n", "full", "", ""},
      {"mode = \"none\"\nselective_ac_option = \"3\"\n", "none", "", ""},
  };
  for (const auto& [text, granularity, method, layers] : cases) {
    const LaunchFile file =
        read_launch_file("[model]\nflavor = \"8B\"\n[activation_checkpoint]\n" + text, "job.toml").value();
    file.require_modelled();
    std::map<std::string, std::string> settings;
    for (const LaunchSetting& each : file.settings) settings[each.key] = each.value;
    EXPECT_EQ(settings["recompute_granularity"], granularity) << text;
    EXPECT_EQ(settings["recompute_method"], method) << text;
    EXPECT_EQ(settings["recompute_num_layers"], layers) << text;
  }
}

TEST(TorchtitanLaunch, GlobalBatchFollowsFromTheNumberOfGpus) {
  EXPECT_EQ(titan_file("").num_microbatches, 1);
  EXPECT_EQ(titan_file("[training]\nglobal_batch_size = 64\n").num_microbatches, 0);
  EXPECT_EQ(titan_file("[parallelism]\npipeline_parallel_degree = 4\n").num_microbatches, 8);
}

TEST(TorchtitanLaunch, EveryFlavorIsAModelThatCanBeSplit) {
  const char* const models[][2] = {
      {"llama3", "debugmodel"},
      {"llama3", "8B"},
      {"llama3", "70B"},
      {"llama3", "405B"},
      {"qwen3", "debugmodel"},
      {"qwen3", "0.6B"},
      {"qwen3", "1.7B"},
      {"qwen3", "4B"},
      {"qwen3", "8B"},
      {"qwen3", "14B"},
      {"qwen3", "32B"},
      {"qwen3", "debugmodel_moe"},
      {"qwen3", "30B-A3B"},
      {"qwen3", "235B-A22B"},
      {"deepseek_v3", "debugmodel"},
      {"deepseek_v3", "16B"},
      {"deepseek_v3", "236B"},
      {"deepseek_v3", "671B"},
      {"gpt_oss", "20b"},
      {"gpt_oss", "120b"},
      {"llama4", "17bx16e"},
      {"llama4", "17bx128e"},
      {"llama4", "17bx16e_irope"},
      {"llama4", "17bx128e_irope"},
      {"llama3", "8B_flex"},
      {"llama3_ft", "debugmodel"},
  };
  for (const auto& [name, flavor] : models) {
    const std::string text = std::string("[model]\nname = \"") + name + "\"\nflavor = \"" + flavor +
                             "\"\n[activation_checkpoint]\nmode = \"full\"\n[parallelism]\n"
                             "pipeline_parallel_degree = 2\ndata_parallel_shard_degree = 4\n";
    const LaunchFile file = read_launch_file(text, "job.toml").value();
    file.require_modelled();
    Settings settings;
    for (const LaunchSetting& each : file.settings) settings[each.key] = {each.value, each.origin, ""};
    settings["global_batch_size"] = {"64", "test", ""};
    std::string contradiction;
    const RunConfig config = config_from(settings, "job.toml", contradiction);
    EXPECT_EQ(contradiction, "");
    EXPECT_EQ(why_invalid(config).value_or(""), "") << text;
  }
}

TEST(TorchtitanLaunch, DumpedConfigurationIsReadLikeTheFile) {
  const LaunchFile dump = read_launch_file(R"({"model": {"name": "llama3", "flavor": "8B", "converters": []},
                           "training": {"local_batch_size": 4, "seq_len": 4096, "dataset_path": null},
                           "parallelism": {"tensor_parallel_degree": 2},
                           "activation_checkpoint": {"mode": "full"}})",
                                           "job.json")
                              .value();
  dump.require_modelled();
  std::map<std::string, std::string> settings;
  for (const LaunchSetting& each : dump.settings) settings[each.key] = each.value;
  EXPECT_EQ(settings["model"], "llama-3.1-8b");
  EXPECT_EQ(settings["seq_length"], "4096");
  EXPECT_EQ(settings["tensor_model_parallel_size"], "2");
}

TEST(TorchtitanLaunch, RefusesWithPlaceAndKey) {
  struct Case {
    std::string text;
    const char* words;
  };
  const std::string job = kTitanJob;
  const Case cases[] = {
      {"# nothing\n", "job.toml: found no key, expected those of torchtitan"},
      {"[model]\n", "job.toml: found no key, expected those of torchtitan"},
      {"[model\n", "job.toml:1: not valid TOML"},
      {"[a]\n[\x01 b]\n", "job.toml:2: not valid TOML, expected keys and tables: found no key behind ["},
      {"[a]\n[[ = ]]\n", "job.toml:2: not valid TOML"},
      {"[a]\n[", "job.toml:2: not valid TOML"},
      {"[a]\nx = 1\nx = 2\n", "job.toml:3: not valid TOML"},
      {"[model]\nflavor = \"9B\"\n",
       "job.toml:2: model.flavor: found \"9B\", expected one of debugmodel, 8B"},
      {"[model]\nname = \"flux\"\n",
       "model.name: found \"flux\", expected one of deepseek_v3, gpt_oss, llama3, llama4, qwen3"},
      {job + "[training]\nseq_length = 1\n", "the nearest known one is training.seq_len"},
      {job + "[training]\nmixed_precision_reduce = \"bfloat16\"\n",
       "job.toml:6: training.mixed_precision_reduce: not modelled"},
      {job + "[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = \"LoopedBFS\"\n",
       "expected 1F1B, GPipe"},
      {job + "[parallelism]\npipeline_parallel_degree = 99999999\n", "expected 1 to"},
      {job + "[parallelism]\ntensor_parallel_degree = 1048576\ncontext_parallel_degree = 1048576\n",
       "ranks in all"},
      {job + "[parallelism]\ntensor_parallel_degree = \"x\"\n", "expected a whole number"},
      {job + "[parallelism]\ndata_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 8\n", "DDP"},
      {"[model]\nflavor = \"8B\"\n[activation_checkpoint]\nselective_ac_option = -2\n",
       "selective_ac_option: found \"-2\", expected op, or a number N"},
      {"[model]\nflavor = \"8B\"\n[activation_checkpoint]\nselective_ac_option = \"ops\"\n",
       "selective_ac_option: found \"ops\", expected op, or a number N"},
      {job + "[float8]\nenable_float8_linear = true\n", "set compile.enable"},
      {job + "[training]\nlocal_batch_size = 0\n", "expected a divisor"},
  };
  for (const Case& each : cases) EXPECT_THAT(titan_complaint(each.text), HasSubstr(each.words)) << each.text;
  EXPECT_THAT(titan_complaint("# a file without its ending\n[model]\nflavor = \"9B\"\n", "job"),
              HasSubstr("model.flavor"));
  std::string deep = "a = ";
  for (int i = 0; i < 300; ++i) deep += "[";
  EXPECT_THAT(titan_complaint(deep), HasSubstr("not valid TOML"));
  std::string many = "[training]\n";
  for (int i = 0; i < 11'000; ++i) many += "a" + std::to_string(i) + " = 1\n";
  EXPECT_THAT(titan_complaint(many), HasSubstr("more than 10000 values"));
}

TEST(TorchtitanLaunch, WholeSectionsOfTheTableCountForTheirKeys) {
  const ArgumentTable& table = argument_table("torchtitan_keys.txt");
  EXPECT_EQ(table.find("metrics.log_freq")->fate, ArgumentFate::without_effect);
  EXPECT_EQ(table.find("fault_tolerance.enable")->fate, ArgumentFate::not_modelled);
  EXPECT_EQ(table.find("fault_tolerance.group_size")->fate, ArgumentFate::without_effect);
  EXPECT_EQ(table.find("training.nothing"), nullptr);
  EXPECT_EQ(table.find("metrics"), nullptr);
}

}  // namespace
}  // namespace plumbline::torchtitan_launch_test
