// Exports for Megatron-Bridge, torchtitan and DeepSpeed read back as the configuration they were made of.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/layer_distribution.hpp"
#include "core/config_text/config_file.hpp"
#include "core/config_text/config_listing.hpp"
#include "core/config_text/load_config.hpp"
#include "core/launch_files/launch_export.hpp"
#include "core/launch_files/launch_file.hpp"
#include "tests/core/launch_files/round_trips.hpp"

namespace plumbline::launch_export_test {
namespace {

using testing::HasSubstr;

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + std::uniform_int_distribution<std::ptrdiff_t>(
                                  0, static_cast<std::ptrdiff_t>(values.size()) - 1)(random_));
  }
  std::string word(std::initializer_list<const char*> words) { return one_of(words); }
  bool coin() { return one_of({true, false}); }

 private:
  std::mt19937 random_;
};

class Drawn {
 public:
  explicit Drawn(unsigned seed) : dice(seed) {}
  void set(const char* key, const std::string& value) { settings.push_back({key, value}); }
  void boolean(const char* key) { set(key, dice.coin() ? "true" : "false"); }
  Dice dice;
  Overrides settings;
};

void draw_numbers(Drawn& drawn, int replicas, int micro, int stages) {
  drawn.set("micro_batch_size", std::to_string(micro));
  drawn.set("global_batch_size", std::to_string(micro * replicas * stages * drawn.dice.one_of({1, 2, 4})));
  drawn.set("seq_length", std::to_string(drawn.dice.one_of({512, 1024})));
  drawn.set("learning_rate", drawn.dice.word({"0.0001", "3e-05"}));
  drawn.set("weight_decay", drawn.dice.word({"0", "0.1"}));
  drawn.set("clip_grad", drawn.dice.word({"0", "1", "0.5"}));
}

Overrides draw_titan(unsigned seed) {
  Drawn drawn(seed);
  Dice& dice = drawn.dice;
  const std::string model = dice.word({"llama-3.1-8b", "llama-3.1-70b", "qwen3-8b", "qwen3-32b",
                                       "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3"});
  const bool experts = model.find("-a") != std::string::npos || model == "deepseek-v3";
  drawn.set("model", model);
  drawn.set("software", dice.word({"torchtitan", "torchtitan-2025"}));
  const bool compiled = drawn.settings.back().value == "torchtitan-2025";
  const int tensor = dice.one_of({1, 2, 4});
  const int stages = dice.one_of({1, 2, 4});
  const int context = dice.one_of({1, 2});
  const int replicas = dice.one_of({2, 4, 8});
  drawn.set("tensor_model_parallel_size", std::to_string(tensor));
  if (tensor > 1) drawn.set("sequence_parallel", "true");
  if (tensor > 1 && compiled && dice.coin()) {
    drawn.set("tp_comm_overlap", "true");
    drawn.set("software", "torchtitan-2025-async");
  }
  drawn.set("pipeline_model_parallel_size", std::to_string(stages));
  drawn.set("context_parallel_size", std::to_string(context));
  if (context > 1) {
    drawn.set("cp_comm_type", dice.word({"p2p", "all_gather"}));
    drawn.boolean("cp_load_balance");
  }
  drawn.set("world_size", std::to_string(tensor * stages * context * replicas));
  drawn.set("zero_stage", "3");
  drawn.set("num_distributed_optimizer_instances", dice.word({"1", "2"}));
  if (stages > 1) {
    const std::string schedule = dice.word({"1f1b", "gpipe", "interleaved", "zb-v"});
    drawn.set("pipeline_schedule", schedule);
    if (schedule == "interleaved") drawn.set("virtual_pipeline_chunks", dice.word({"2", "3"}));
    if (schedule == "1f1b" && stages == 4 && model == "llama-3.1-8b" && dice.coin())
      drawn.set("layer_distribution", dice.word({"7,9,9,7", "8,9,8,7"}));
  }
  drawn.set("precision", dice.word({"bf16", "fp32"}));
  if (drawn.settings.back().value == "bf16" && compiled && dice.coin() && !experts) {
    drawn.set("fp8_format", "hybrid");
    drawn.set("fp8_recipe", "tensorwise");
    const bool async = std::any_of(drawn.settings.begin(), drawn.settings.end(),
                                   [](const Override& each) { return each.key == "tp_comm_overlap"; });
    drawn.set("software", std::string(dice.word({"torchtitan-2025-float8", "torchtitan-float8"})) +
                              (async ? "-async" : ""));
  }
  drawn.set("recompute_granularity", dice.word({"none", "full", "selective"}));
  if (drawn.settings.back().value == "full" && dice.coin()) {
    drawn.set("recompute_method", "interval");
    drawn.set("recompute_num_layers", dice.word({"2", "3"}));
  }
  drawn.set("make_vocab_size_divisible_by", "1");
  if (experts) {
    drawn.set("expert_model_parallel_size", dice.word({"1", "2"}));
    if (drawn.settings.back().value == "2") drawn.set("expert_tensor_parallel_size", dice.word({"1"}));
    drawn.set("moe_token_dispatcher_type", dice.word({"alltoall", "flex"}));
  }
  drawn.boolean("deterministic_mode");
  if (dice.coin()) {
    drawn.set("offload_params", "true");
    drawn.set("optimizer_offload_fraction", "1");
  }
  draw_numbers(drawn, replicas, dice.one_of({1, 2}), stages);
  return drawn.settings;
}

Overrides draw_deepspeed(unsigned seed) {
  Drawn drawn(seed);
  Dice& dice = drawn.dice;
  drawn.set("model", dice.word({"llama-3.1-8b", "qwen2.5-7b", "qwen3-8b", "gpt2-1558m", "mixtral-8x7b"}));
  drawn.set("software", "deepspeed");
  const int tensor = dice.one_of({1, 2});
  const int context = dice.one_of({1, 2});
  const int replicas = dice.one_of({2, 4, 8});
  drawn.set("tensor_model_parallel_size", std::to_string(tensor));
  drawn.set("context_parallel_size", std::to_string(context));
  if (context > 1) drawn.set("cp_comm_type", "a2a");
  drawn.set("world_size", std::to_string(tensor * context * replicas));
  const int stage = dice.one_of({0, 1, 2, 3});
  drawn.set("zero_stage", std::to_string(stage));
  if (stage == 3 && dice.coin()) drawn.set("zero_hpz_partition_size", "2");
  if (stage > 0) drawn.set("optimizer_offload_fraction", dice.word({"0", "0.5", "1"}));
  if (stage == 3) drawn.boolean("offload_params");
  drawn.boolean("overlap_grad_reduce");
  drawn.set("ddp_bucket_size", dice.word({"50000000", "500000000"}));
  drawn.set("precision", dice.word({"bf16", "fp16", "fp32"}));
  if (drawn.settings.back().value != "fp32") drawn.set("grad_dtype", "same");
  drawn.set("recompute_granularity", dice.word({"none", "full"}));
  drawn.set("attention_backend", dice.word({"fused", "unfused"}));
  draw_numbers(drawn, replicas, dice.one_of({1, 2}), 1);
  return drawn.settings;
}

Overrides draw_bridge(unsigned seed) {
  Drawn drawn(seed);
  Dice& dice = drawn.dice;
  const std::string model = dice.word({"llama-3.1-8b", "llama-3.1-70b", "qwen3-8b", "qwen2.5-7b",
                                       "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "gpt3-175b"});
  const bool experts =
      model.find('x') != std::string::npos || model.find("-a") != std::string::npos || model == "deepseek-v3";
  drawn.set("model", model);
  drawn.set("software", "megatron-bridge");
  const int tensor = dice.one_of({1, 2, 4});
  const int stages = dice.one_of({1, 2, 4});
  const int replicas = dice.one_of({1, 2, 8});
  drawn.set("tensor_model_parallel_size", std::to_string(tensor));
  drawn.set("pipeline_model_parallel_size", std::to_string(stages));
  drawn.set("world_size", std::to_string(tensor * stages * replicas));
  if (stages > 1 && dice.coin()) {
    drawn.set("pipeline_schedule", "interleaved");
    drawn.set("virtual_pipeline_chunks", dice.word({"2", "3"}));
  }
  drawn.boolean("sequence_parallel");
  drawn.boolean("overlap_grad_reduce");
  drawn.boolean("cross_entropy_loss_fusion");
  drawn.set("zero_stage", dice.word({"0", "1"}));
  if (drawn.settings.back().value == "1") drawn.boolean("overlap_param_gather");
  drawn.set("precision", dice.word({"bf16", "fp16"}));
  drawn.set("grad_dtype", dice.word({"fp32", "same"}));
  if (!experts && dice.coin()) {
    drawn.set("fp8_format", "hybrid");
    drawn.set("fp8_recipe", dice.word({"tensorwise", "delayed"}));
    if (drawn.settings.back().value == "delayed") drawn.set("fp8_amax_history_len", "16");
    drawn.boolean("fp8_param_gather");
    drawn.boolean("disable_parameter_transpose_cache");
    drawn.boolean("first_last_layers_bf16");
    if (drawn.settings.back().value == "true") drawn.set("num_layers_at_start_in_bf16", "2");
    drawn.boolean("fp8_dot_product_attention");
  }
  drawn.set("recompute_granularity", dice.word({"none", "full", "selective"}));
  drawn.set("ddp_bucket_size", dice.word({"10000000", "40000000"}));
  drawn.set("make_vocab_size_divisible_by", "128");
  if (experts) {
    drawn.set("expert_model_parallel_size", dice.word({"1", "2"}));
    drawn.set("moe_token_dispatcher_type", dice.word({"alltoall", "flex"}));
    drawn.set("moe_aux_loss_coeff", dice.word({"0", "0.001"}));
  }
  draw_numbers(drawn, replicas, dice.one_of({1, 2}), stages);
  if (model == "gpt3-175b") drawn.set("seq_length", "2048");  // as many as learned positions
  return drawn.settings;
}

std::map<std::string, std::string> keys_read_back(const RunConfig& config) {
  std::map<std::string, std::string> keys;
  for (const auto& [key, value] : describe(config)) keys[key] = value;
  Json model = Json::parse(to_config_json(config.model));
  model.erase("_name_or_path");
  // Rotary positions have no table, and Megatron-Bridge no key for their number.
  if (config.model.position.kind == Positions::rotary) model.erase("max_position_embeddings");
  keys["model"] = model.dump();
  const bool two = config.parallel.pp.schedule == "zb-v" || config.parallel.pp.schedule == "interleaved";
  const int chunks = config.parallel.pp.schedule == "interleaved"
                         ? std::max(2, config.parallel.pp.virtual_chunks)
                     : two ? 2
                           : 1;
  keys["layer_distribution"] =
      fmt::format("{}", fmt::join(layers_per_stage(config, config.parallel.pipeline * chunks), ","));
  keys["virtual_pipeline_chunks"] = std::to_string(chunks);
  return keys;
}

struct Framework {
  const char* name;
  Overrides (*draw)(unsigned seed);
  std::vector<const char*> left_out;  // keys that its files do not say, or that its software decides
};

TEST(LaunchExport, ReadsBackAsTheSameConfiguration) {
  const Framework frameworks[] = {
      {"torchtitan",
       draw_titan,
       {"overlap_grad_reduce", "overlap_param_gather", "ddp_bucket_size", "cp_comm_type", "cp_load_balance",
        "moe_token_dispatcher_type", "grad_dtype", "cross_entropy_loss_fusion"}},
      {"deepspeed", draw_deepspeed, {"overlap_param_gather", "make_vocab_size_divisible_by", "grad_dtype"}},
      {"megatron-bridge",
       draw_bridge,
       {"overlap_param_gather", "moe_router_load_balancing_type", "learning_rate", "weight_decay",
        "clip_grad"}},
  };
  for (const Framework& framework : frameworks) {
    int valid = 0;
    for (unsigned seed = 0; valid < kRoundTrips && seed < 40'000; ++seed) {
      RunConfig config;
      try {
        config = load_run_config("", framework.draw(seed));
      } catch (const InputError&) {
        continue;
      }
      if (why_invalid(config)) continue;
      std::string text;
      try {
        text = export_launch(config, framework.name);
      } catch (const InputError& error) {
        // Three chunks of an even distribution are no split of torchtitan's, nor are replicas without shards.
        ASSERT_THAT(error.what(), testing::AnyOf(HasSubstr("pipeline_schedule: found"),
                                                 HasSubstr("num_distributed_optimizer_instances: found")))
            << framework.name;
        continue;
      }
      ++valid;
      const auto launch = read_launch_file(text, "exported");
      ASSERT_TRUE(launch) << text;
      ASSERT_TRUE(launch->refused.empty())
          << launch->refused.front().name << ": " << launch->refused.front().reason << "\n"
          << text;
      Settings read;
      read["world_size"] = {std::to_string(config.parallel.world_size), "test", ""};
      for (const LaunchSetting& setting : launch->settings)
        read[setting.key] = {setting.value, setting.origin, ""};
      std::string contradiction;
      const RunConfig again = config_from(read, "exported", contradiction);
      ASSERT_EQ(contradiction, "") << text;
      auto before = keys_read_back(config);
      auto after = keys_read_back(again);
      if (config.model.mixture && before["software"] == "torchtitan")
        before["software"] = "torchtitan-2025";  // experts are predicted with it
      for (const char* key : framework.left_out) {
        before.erase(key);
        after.erase(key);
      }
      if (config.numerics.precision != DType::fp32) {
        EXPECT_EQ(again.numerics.grad_dtype, config.numerics.grad_dtype) << text;
      }
      for (const auto& [key, value] : after)
        ASSERT_EQ(value, before.at(key)) << framework.name << " " << key << "\n" << text;
    }
    EXPECT_EQ(valid, kRoundTrips) << framework.name;
  }
}

TEST(LaunchExport, RefusesWhatKeysDoNotSay) {
  struct Case {
    const char* framework;
    Overrides settings;
    const char* words;
  };
  const Case cases[] = {
      {"torchtitan", {{"precision", "fp16"}}, "precision: found fp16, which torchtitan's keys do not say"},
      {"torchtitan", {{"gpus", "8"}, {"zero_stage", "1"}}, "zero_stage: found 1"},
      {"megatron-lm", {{"gpus", "8"}, {"zero_stage", "2"}}, "zero_stage: found 2"},
      {"torchtitan",
       {{"model", "gpt2-124m"}, {"make_vocab_size_divisible_by", "1"}},
       "model: found gpt2-124m"},
      {"torchtitan",
       {{"gpus", "4"}, {"pp", "4"}, {"pipeline_schedule", "zb-h1"}},
       "pipeline_schedule: found zb-h1"},
      {"torchtitan", {{"hidden_dropout", "0.1"}}, "hidden_dropout: found"},
      {"deepspeed", {{"gpus", "4"}, {"pp", "4"}}, "pipeline_model_parallel_size: found 4"},
      {"deepspeed", {{"recompute_granularity", "selective"}}, "recompute_granularity: found selective"},
      {"megatron-bridge", {{"precision", "fp32"}}, "precision: found fp32"},
      {"megatron-bridge", {{"model", "bloom-560m"}}, "model: found layers of bloom"},
      {"caffe", {}, "--to: found \"caffe\", expected megatron-lm, megatron-bridge, torchtitan or deepspeed"},
  };
  for (const Case& each : cases) {
    try {
      Overrides settings = {{"model", "llama-3.1-8b"}};
      settings.insert(settings.end(), each.settings.begin(), each.settings.end());
      export_launch(load_run_config("", settings), each.framework);
      ADD_FAILURE() << each.words;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(each.words));
    }
  }
}

}  // namespace
}  // namespace plumbline::launch_export_test
