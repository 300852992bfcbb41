// Recipes of Megatron-Bridge as they are dumped, beside a model on the command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "bench/measure/machine/named_hardware.hpp"
#include "bench/plan/plan.hpp"
#include "core/base/error.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/config_keys.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::bridge_recipes_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class BridgeRecipe : public testing::Test {
 protected:
  BridgeRecipe() : path_(fs::path(testing::TempDir()) / "recipe.yaml") {}
  ~BridgeRecipe() override { fs::remove(path_); }
  RunConfig load(const std::string& text, const Overrides& more = {}, const char* model = "llama-3.1-8b") {
    std::ofstream(path_) << text;
    Overrides keys = {{"model", model}};
    keys.insert(keys.end(), more.begin(), more.end());
    notes_.clear();
    return load_run_config(path_.string(), keys, &notes_);
  }
  fs::path path_;
  std::string notes_;
};

constexpr const char* kTrain = "train: {micro_batch_size: 1, global_batch_size: 64}\n";

std::string printed(const RunConfig& config, const char* key) {
  return find_config_key(key)->print(config);
}

TEST_F(BridgeRecipe, SettingsAreReadAsTheyAreDumped) {
  struct Case {
    const char* text;
    const char* key;
    const char* value;
    const char* model = "llama-3.1-8b";
    const char* note = "";
  };
  constexpr const char* kMixture = "qwen3-30b-a3b";
  const Case cases[] = {
      {"model: {account_for_embedding_in_pipeline_split: true, account_for_loss_in_pipeline_split: true, "
       "pipeline_model_parallel_size: 2}\n",
       "layer_distribution", "embedding+loss"},
      {"model: {account_for_loss_in_pipeline_split: true, pipeline_model_parallel_size: 3}\n",
       "layer_distribution", "loss"},
      {"model:\n  pipeline_model_parallel_size: 2\n  pipeline_model_parallel_layout:\n  - [embedding, "
       "decoder, "
       "decoder]\n  - [decoder, loss]\n",
       "layer_distribution", "2,1"},
      {"model:\n  pipeline_model_parallel_size: 2\n  mtp_num_layers: 1\n  pipeline_model_parallel_layout:\n"
       "  - [embedding, decoder]\n  - [decoder]\n  - []\n  - [decoder, mtp, loss]\n",
       "layer_distribution", "1,1,0,1"},
      {"model: {moe_token_dispatcher_type: alltoall}\n", "moe_token_dispatcher_type", "auto", "llama-3.1-8b",
       "moe_token_dispatcher_type: found alltoall with llama-3.1-8b, which has no experts: without effect"},
      {"model: {moe_token_dispatcher_type: alltoall}\n", "moe_token_dispatcher_type", "alltoall", kMixture},
      {"model: {moe_token_dispatcher_type: flex}\n", "moe_token_dispatcher_type", "flex", kMixture},
      {"model: {moe_token_dispatcher_type: flex, moe_flex_dispatcher_backend: hybridep}\n",
       "moe_token_dispatcher_type", "flex", kMixture},
      {"model: {moe_token_dispatcher_type: flex, moe_flex_dispatcher_backend: null}\n",
       "moe_token_dispatcher_type", "alltoall", kMixture},
      {"model: {pipeline_model_parallel_size: 4, num_layers_in_first_pipeline_stage: 5, "
       "num_layers_in_last_pipeline_stage: 7}\n",
       "layer_distribution", "5,*,7"},
      {"model: {pipeline_model_parallel_size: 4, num_layers_in_last_pipeline_stage: 2}\n",
       "layer_distribution", "*,2"},
      {"comm_overlap: {defer_embedding_wgrad_compute: true, wgrad_deferral_limit: 22}\n"
       "model: {pipeline_model_parallel_size: 2}\n",
       "wgrad_deferral_limit", "22"},
      {"optimizer: {overlap_param_gather_with_optimizer_step: true}\n",
       "overlap_param_gather_with_optimizer_step", "true"},
      {"model: {fine_grained_activation_offloading: true, offload_modules: [core_attn, attn_proj]}\n",
       "offload_modules", "core_attn,attn_proj"},
      {"model: {fine_grained_activation_offloading: false, offload_modules: [core_attn]}\n",
       "offload_modules", "none"},
      {"model: {cpu_offloading_num_layers: 3}\n", "cpu_offloading_num_layers", "0"},
      {"model: {cpu_offloading_num_layers: 3, cpu_offloading: false}\n", "cpu_offloading_num_layers", "0"},
      {"model: {cpu_offloading_num_layers: 3, cpu_offloading: true}\n", "cpu_offloading_num_layers", "3"},
      {"dataset: {seq_length: 4096}\nmodel: {seq_length: 8192}\n", "seq_length", "8192", "llama-3.1-8b",
       "seq_length: found 4096, taken is the model's, 8192"},
      {"model: {seq_length: 2048, moe_a2a_overlap: true}\n", "overlap_moe_expert_parallel_comm", "false"},
      {"comm_overlap: {overlap_moe_expert_parallel_comm: true, delay_wgrad_compute: true}\n"
       "model: {expert_model_parallel_size: 8}\n",
       "delay_wgrad_compute", "true", kMixture},
      {"optimizer:\n  use_precision_aware_optimizer: true\n  exp_avg_dtype: {_call_: false, _target_: "
       "torch.bfloat16}\n",
       "exp_avg_dtype", "bf16"},
      {"optimizer:\n  use_precision_aware_optimizer: true\n  exp_avg_dtype: {_call_: false, _target_: "
       "torch.bfloat16}\n",
       "store_param_remainders", "true"},
      {"optimizer: {use_precision_aware_optimizer: true, store_param_remainders: false}\n",
       "store_param_remainders", "false"},
      {"optimizer: {use_precision_aware_optimizer: true}\nmixed_precision: {bf16: true, fp8: e4m3, "
       "fp8_recipe: "
       "mxfp8}\n",
       "store_param_remainders", "false"},
      {"optimizer: {use_precision_aware_optimizer: false}\n", "store_param_remainders", "false"},
      {"optimizer:\n  use_precision_aware_optimizer: true\n  main_grads_dtype: {_target_: torch.bfloat16}\n",
       "grad_dtype", "same"},
      {"model: {moe_expert_rank_capacity_factor: 1.5, moe_paged_stash: true}\n",
       "moe_expert_rank_capacity_factor", "1.5", kMixture},
      {"dataset: {hf_processor_path: x}\nmodel: {freeze_language_model: true, freeze_vision_model: true}\n",
       "images_per_sequence", "1", "qwen3-vl-30b-a3b"},
      {"dataset: {hf_processor_path: x, num_images: 2, image_size: [512, 512]}\nmodel: {seq_length: 4096}\n",
       "image_tokens", "256", "qwen3-vl-30b-a3b"},
      {"dataset: {hf_processor_path: x}\nmodel:\n  freeze_vision_model: true\n  vision_config: {depth: 27}\n",
       "freeze_vision_model", "true", "qwen3-vl-8b"},
      {"model: {mtp_num_layers: 2, mtp_use_repeated_layer: true}\n", "mtp_use_repeated_layer", "true",
       "deepseek-v3"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.text);
    const std::string text = each.text;
    const char* const some = text.find("model:") == std::string::npos ? "model: {seq_length: 4096}\n" : "";
    const RunConfig config = load(some + text + kTrain, {}, each.model);
    EXPECT_EQ(printed(config, each.key), each.value);
    EXPECT_THAT(notes_, HasSubstr(each.note));
  }
}

TEST_F(BridgeRecipe, TheCommandLineCountsOverTheFile) {
  const std::string text = std::string("model: {moe_token_dispatcher_type: alltoall}\n") + kTrain;
  EXPECT_EQ(printed(load(text, {{"moe_token_dispatcher_type", "flex"}}), "moe_token_dispatcher_type"),
            "flex");
  const std::string layers = std::string("model: {num_layers: 4, vocab_size: 1024}\n") + kTrain;
  EXPECT_EQ(load(layers).model.layers, 4);
  EXPECT_EQ(load(layers).model.vocab, 1024);
  EXPECT_THAT(notes_, HasSubstr("--num-layers: 4 is taken, not the 32 of llama-3.1-8b"));
}

TEST_F(BridgeRecipe, WhatIsMissingIsNamed) {
  struct Case {
    const char* text;
    const char* reason;
  };
  for (const Case& each :
       {Case{"model: {hybrid_layer_pattern: M*}\n", "--hybrid-layer-pattern: found without a model"},
        {"model: {num_layers: 4}\n", "missing, expected a whole number"},
        {"model:\n  pipeline_model_parallel_size: 2\n  pipeline_model_parallel_layout: [[decoder], "
         "[embedding]]\n",
         "expected a layout"}}) {
    std::ofstream(path_) << each.text << kTrain;
    EXPECT_THAT([&] { load_run_config(path_.string(), {}); },
                testing::ThrowsMessage<InputError>(HasSubstr(each.reason)))
        << each.text;
  }
}

/// A model that is not read comes before what its recipe says.
TEST_F(BridgeRecipe, ModelsThatAreNotReadAreNamedFirst) {
  for (const char* model : {"zai-org/GLM-5.1", "deepseek-ai/DeepSeek-V3.2-Exp"}) {
    EXPECT_THAT([&] { load(std::string("model: {cp_comm_type: allgather}\n") + kTrain, {}, model); },
                testing::ThrowsMessage<InputError>(HasSubstr("a model with sparse attention")))
        << model;
  }
}

struct Recipe {
  std::string name, model, hardware, gpus;
};

std::vector<Recipe> recipes(const std::string& folder) {
  std::vector<Recipe> all;
  std::ifstream file(folder + "recipes.csv");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    Recipe each;
    for (std::string* cell : {&each.name, &each.model, &each.hardware, &each.gpus})
      std::getline(cells, *cell, ',');
    all.push_back(std::move(each));
  }
  return all;
}

/// As many as are read today, of 209. A refusal is one line.
TEST(BridgeRecipes, MostAreReadAsTheyAre) {
  const std::string folder = std::string(PLUMBLINE_SOURCE_DIR) + "/../shared/cases/bridge-recipes/";
  const std::vector<Recipe> all = recipes(folder);
  if (all.empty()) GTEST_SKIP() << folder << " is absent";
  int read = 0;
  for (const Recipe& each : all) {
    try {
      Overrides keys = {{"world_size", each.gpus}, {"hardware", each.hardware}};
      if (!each.model.empty()) keys.push_back({"model", each.model});
      RunConfig config = load_run_config(folder + each.name + ".yaml", keys);
      name_hardware(config.machine.hardware);
      const HardwareProfile hardware = *find_hardware_preset(config.machine.hardware);
      const auto refusal = why_invalid(config);
      if (refusal || why_unpredictable(config, hardware)) continue;
      step_for(config);
      EXPECT_EQ(config.model.parameters(), find_preset(each.model)->parameters() +
                                               (config.model.vocab - find_preset(each.model)->vocab) *
                                                   config.model.hidden *
                                                   (config.model.embedding.tied ? 1 : 2))
          << each.name;
      ++read;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n"))) << each.name;
    }
  }
  EXPECT_GE(read, 146);
}

}  // namespace
}  // namespace plumbline::bridge_recipes_test
