// Exported launch commands read back as the configuration that they were made of.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

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

namespace plumbline::megatron_export_test {
namespace {

using testing::HasSubstr;

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + std::uniform_int_distribution<std::ptrdiff_t>(
                                  0, static_cast<std::ptrdiff_t>(values.size()) - 1)(random_));
  }
  bool coin() { return one_of({true, false}); }

 private:
  std::mt19937 random_;
};

/// Settings of a run that Megatron-LM can be asked for.
Overrides draw_settings(Draw& draw) {
  Overrides all;
  const auto set = [&](const char* key, const std::string& value) { all.push_back({key, value}); };
  const auto boolean = [&](const char* key) { set(key, draw.coin() ? "true" : "false"); };
  const std::string model = draw.one_of<const char*>(
      {"llama-3-8b", "llama-3.1-70b", "qwen2.5-7b", "qwen3-8b", "gpt3-175b", "gpt2-1558m", "mixtral-8x7b",
       "qwen3-30b-a3b", "qwen1.5-moe-a2.7b", "deepseek-v3", "starcoderbase-7b"});
  set("model", model);
  const bool experts =
      model.find('x') != std::string::npos || model.find("-a") != std::string::npos || model == "deepseek-v3";
  set("software", "megatron-core");
  const int tensor = draw.one_of({1, 2, 4});
  const int stages = draw.one_of({1, 2, 4});
  const int context = draw.one_of({1, 2});
  const int replicas = draw.one_of({1, 2, 3, 8});
  set("tensor_model_parallel_size", std::to_string(tensor));
  set("pipeline_model_parallel_size", std::to_string(stages));
  set("context_parallel_size", std::to_string(context));
  set("world_size", std::to_string(tensor * stages * context * replicas));
  if (context > 1) set("cp_comm_type", draw.one_of<const char*>({"p2p", "all_gather", "a2a"}));
  if (stages > 1 && draw.coin()) {
    set("pipeline_schedule", "interleaved");
    set("virtual_pipeline_chunks", std::to_string(draw.one_of({2, 3})));
  }
  if (stages == 2 && draw.coin() && model == "llama-3-8b" && all.back().key != "virtual_pipeline_chunks")
    set("layer_distribution", draw.one_of<const char*>({"15,17", "20,12"}));
  boolean("sequence_parallel");
  boolean("overlap_grad_reduce");
  if (draw.coin()) {
    set("zero_stage", "1");
    boolean("overlap_param_gather");
    if (stages > 1) boolean("align_param_gather");
  }
  const int micro = draw.one_of({1, 2});
  set("micro_batch_size", std::to_string(micro));
  set("global_batch_size", std::to_string(micro * replicas * stages * draw.one_of({1, 2, 16})));
  set("seq_length", std::to_string(draw.one_of({512, 1024})));
  set("precision", draw.one_of<const char*>({"bf16", "fp16", "fp32"}));
  const bool half = all.back().value == "fp16";
  if (half && draw.coin())
    set(draw.one_of<const char*>({"loss_scale", "initial_loss_scale", "min_loss_scale", "loss_scale_window"}),
        "4");
  if (half || all.back().value != "fp32") set("grad_dtype", draw.one_of<const char*>({"fp32", "same"}));
  if (draw.coin() && !experts) {
    set("fp8_format", draw.one_of<const char*>({"e4m3", "hybrid"}));
    set("fp8_recipe", draw.one_of<const char*>({"delayed", "tensorwise"}));
    if (all.back().value == "delayed") set("fp8_amax_history_len", draw.one_of<const char*>({"1", "16"}));
    boolean("fp8_param_gather");
  }
  set("hidden_dropout", draw.one_of<const char*>({"0", "0.1"}));
  set("attention_dropout", draw.one_of<const char*>({"0", "0.25"}));
  set("attention_backend", draw.one_of<const char*>({"fused", "unfused"}));
  boolean("cross_entropy_loss_fusion");
  const bool muon = !half && draw.coin();
  set("optimizer_offload_fraction", muon ? "0" : draw.one_of<const char*>({"0", "0.5"}));
  if (muon) {
    set("optimizer", "muon");
    set("muon_momentum", draw.one_of<const char*>({"0.9", "0.95"}));
    boolean("muon_nesterov");
    set("muon_scale_mode", draw.one_of<const char*>({"spectral", "shape_scaling"}));
    set("muon_extra_scale_factor", draw.one_of<const char*>({"1", "0.2"}));
    set("muon_num_ns_steps", draw.one_of<const char*>({"5", "3"}));
    set("muon_coefficient_type", draw.one_of<const char*>({"simple", "quintic"}));
    set("muon_tp_mode", draw.one_of<const char*>({"blockwise", "duplicated"}));
    boolean("muon_split_qkv");
  }
  set("make_vocab_size_divisible_by", draw.one_of<const char*>({"1", "128"}));
  set("ddp_bucket_size", draw.one_of<const char*>({"10000000", "40000000"}));
  const int recompute = draw.one_of({0, 1, 2});
  if (recompute == 1) {
    set("recompute_granularity", "full");
    set("recompute_method", draw.one_of<const char*>({"uniform", "block"}));
    set("recompute_num_layers", draw.one_of<const char*>({"1", "2"}));
  } else if (recompute == 2) {
    set("recompute_granularity", "selective");
    set("recompute_modules", draw.one_of<const char*>({"core_attn", "core_attn,layernorm", "mlp"}));
  }
  if (experts) {
    set("expert_model_parallel_size", std::to_string(draw.one_of({1, 2})));
    set("moe_token_dispatcher_type", draw.one_of<const char*>({"allgather", "alltoall", "flex"}));
    set("moe_aux_loss_coeff", draw.one_of<const char*>({"0", "0.001"}));
    set("moe_router_load_balancing_type", draw.one_of<const char*>({"aux_loss", "seq_aux_loss"}));
    if (draw.coin()) set("moe_expert_capacity_factor", "1.5");
  }
  return all;
}

std::map<std::string, std::string> keys_of(const RunConfig& config) {
  std::map<std::string, std::string> keys;
  for (const auto& [key, value] : describe(config)) keys[key] = value;
  Json model = Json::parse(to_config_json(config.model));
  model.erase("_name_or_path");
  keys["model"] = model.dump();
  // Stages of different sizes are written out.
  const int stages =
      config.parallel.pipeline *
      (config.parallel.pp.schedule == "interleaved" ? std::max(2, config.parallel.pp.virtual_chunks) : 1);
  keys["layer_distribution"] = fmt::format("{}", fmt::join(layers_per_stage(config, stages), ","));
  // Keys that a launch command of Megatron-LM does not set.
  if (!config.parallel.dp.overlap_param_gather) keys["overlap_param_gather"] = "auto";
  return keys;
}

TEST(MegatronExport, ReadsBackAsTheSameConfiguration) {
  int valid = 0;
  int drawn = 0;
  for (unsigned seed = 0; valid < kRoundTrips && seed < 20'000; ++seed) {
    Draw draw(seed);
    const Overrides settings = draw_settings(draw);
    RunConfig config;
    try {
      config = load_run_config("", settings);
    } catch (const InputError&) {
      continue;
    }
    ++drawn;
    if (why_invalid(config)) continue;
    ++valid;
    const std::string script = export_launch(config, "megatron-lm");
    const auto launch = read_launch_file(script, "exported");
    ASSERT_TRUE(launch) << script;
    ASSERT_TRUE(launch->refused.empty()) << launch->refused.front().name << script;
    Settings read;
    for (const LaunchSetting& setting : launch->settings)
      read[setting.key] = {setting.value, setting.origin, ""};
    std::string contradiction;
    const RunConfig again = config_from(read, "exported", contradiction);
    ASSERT_EQ(contradiction, "") << script;
    const auto before = keys_of(config);
    for (const auto& [key, value] : keys_of(again)) ASSERT_EQ(value, before.at(key)) << key << "\n" << script;
  }
  EXPECT_EQ(valid, kRoundTrips) << "of " << drawn;
}

TEST(MegatronExport, RefusesWhatFlagsDoNotSay) {
  struct Case {
    Overrides settings;
    const char* words;
  };
  const Case cases[] = {
      {{{"vocab_parallel", "vocab-1"}}, "vocab_parallel: found"},
      {{{"pipeline_schedule", "zb-h1"}},
       "pipeline_schedule: found zb-h1, which Megatron-LM's flags do not say"},
      {{{"model", "bloom-560m"}}, "model: found layers of bloom"},
      {{{"model", "falcon-7b"}}, "model: found layers of falcon"},
      {{{"optimizer", "sgd"}}, "optimizer: found sgd"},
  };
  for (const Case& each : cases) {
    try {
      Overrides settings = {{"model", "llama-3-8b"}};
      settings.insert(settings.end(), each.settings.begin(), each.settings.end());
      export_launch(load_run_config("", settings), "megatron-lm");
      ADD_FAILURE() << each.words;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(each.words));
    }
  }
  EXPECT_THROW(export_launch(load_run_config("llama-3-8b", {}), "caffe"), InputError);
}

}  // namespace
}  // namespace plumbline::megatron_export_test
