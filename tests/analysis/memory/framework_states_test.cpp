// Memory that other software holds for a whole run, during its update and for SwiGLU's backward, by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/hardware/hardware.hpp"
#include "analysis/memory/framework_memory.hpp"
#include "analysis/memory/host_memory.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/step/stage_shapes.hpp"
#include "analysis/work/framework_list.hpp"
#include "bench/plan/plan.hpp"
#include "core/config_text/load_config.hpp"

namespace plumbline::framework_states_test {
namespace {

RunConfig llama_on_h100(const Overrides& more) {
  Overrides settings = {{"model", "llama-3-8b", ""},
                        {"hardware", "h100-sxm-80gb", ""},
                        {"seq_length", "1024", ""},
                        {"precision", "bf16", ""}};
  settings.insert(settings.end(), more.begin(), more.end());
  return load_run_config("", settings);
}

constexpr std::int64_t kLayerWeights = 218103808;  // 4096 x (2 x 4096 + 2 x 1024 + 3 x 14336)
constexpr std::int64_t kOthers = std::int64_t{2} * 128256 * 4096 + 65 * 4096;

// Weights of layers in 16 bit and two forms in FP8, or in FP8 alone, with or without transposes.
TEST(FrameworkStates, WeightsInFp8AreHeldAsTheRecipesSay) {
  struct Case {
    const char* software;
    const char* recipe;
    const char* gather;
    const char* again;
    int bytes;  // of a layer's weight
  };
  const Case cases[] = {
      {"megatron-core-2025", "delayed", "false", "false", 4},
      {"megatron-core-2025", "delayed", "true", "false", 2},
      {"megatron-core-2025", "delayed", "true", "true", 1},
      {"nemo-2024", "delayed", "false", "false", 2},
      {"nemo-2025", "delayed", "false", "false", 2},
      {"megatron-bridge", "tensorwise", "false", "false", 2},
      {"megatron-bridge", "delayed", "false", "true", 1},
      {"megatron-bridge", "blockwise", "false", "false", 4},
      {"megatron-bridge", "blockwise", "true", "false", 2},
  };
  for (const Case& c : cases) {
    const RunConfig config = llama_on_h100({{"software", c.software, ""},
                                            {"fp8_format", "hybrid", ""},
                                            {"fp8_recipe", c.recipe, ""},
                                            {"fp8_param_gather", c.gather, ""},
                                            {"disable_parameter_transpose_cache", c.again, ""}});
    const StageShape shape = stage_shapes(config, 1).front();
    EXPECT_EQ(framework_held_bytes({&shape, 1})[Category::parameters].value,
              2 * kOthers + 32 * c.bytes * kLayerWeights)
        << c.software << ' ' << c.recipe << ' ' << c.gather << ' ' << c.again;
  }
}

// Per token and column of the feed-forward layer: gate and input, the activated gate unless one kernel does
// it all, and the product.
TEST(FrameworkStates, SwigluKeepsItsInput) {
  struct Case {
    const char* software;
    const char* narrow;
    int bytes;
  };
  const Case cases[] = {{"megatron-core-2025", "false", 6}, {"megatron-core-2025", "true", 4},
                        {"torchtitan-compile", "false", 6}, {"torchtitan", "false", 8},
                        {"deepspeed", "false", 8},          {"torchtitan", "true", 4}};
  for (const Case& c : cases) {
    const StageShape shape =
        stage_shapes(
            llama_on_h100({{"software", c.software, ""}, {"activation_func_fp8_input_store", c.narrow, ""}}),
            1)
            .front();
    // Norms' inputs and results, queries, keys, values, attention's result and statistics besides.
    EXPECT_EQ(framework_layer_bytes(shape),
              1024 * (8 * 4096 + 4 * 4096 + 4 * 1024 + 4 * 32 + c.bytes * 14336))
        << c.software << ' ' << c.narrow;
  }
}

// Composer keeps a micro-batch's 16-bit logits until the next one's forward has made others. Its metrics copy
// them to fp32 and make their log-softmax after the backward, beside the gradients of all layers.
TEST(FrameworkStates, MetricsOfComposerNeedLogitsAfterTheBackward) {
  constexpr std::int64_t logits = std::int64_t{8192} * 128256;
  for (const char* const software : {"llm-foundry", "torchtitan"}) {
    const bool metrics = std::string(software) == "llm-foundry";
    const RunConfig config = llama_on_h100(
        {{"software", software, ""}, {"recompute_granularity", "full", ""}, {"seq_length", "8192", ""}});
    const StageShape shape = stage_shapes(config, 1).front();
    EXPECT_EQ(framework_held_bytes({&shape, 1})[Category::logits].value, metrics ? 2 * logits : 0);
    const ActionProfile forward = framework_action_profile(shape, ActionType::forward);
    const ActionProfile backward = framework_action_profile(shape, ActionType::backward);
    EXPECT_EQ(forward.net[Category::logits] + backward.net[Category::logits], Bytes{});
    if (!metrics) continue;
    EXPECT_EQ(forward.net[Category::logits], Bytes{});
    EXPECT_EQ(backward.peak[Category::logits].value, 8 * logits) << "it is the largest part of this backward";
    EXPECT_EQ(backward.peak[Category::workspace], Bytes{});
  }
}

TEST(FrameworkStates, OffloadedLayersAreOnTheHost) {
  struct Case {
    const char* layers;
    int gone;
  };
  for (const Case& c : {Case{"0", 0}, Case{"20", 20}, Case{"31", 31}}) {
    const RunConfig config =
        llama_on_h100({{"software", "megatron-bridge", ""}, {"cpu_offloading_num_layers", c.layers, ""}});
    const StageShape shape = stage_shapes(config, 1).front();
    const std::int64_t layer = framework_layer_bytes(shape);
    EXPECT_EQ(framework_action_profile(shape, ActionType::forward).net[Category::activations].value,
              (32 - c.gone) * layer)
        << c.layers;
    Bytes host;
    for (const Bytes bytes : offloaded_bytes(shape)) host += bytes;
    EXPECT_EQ(host.value, c.gone * layer) << c.layers;
  }
  const RunConfig eager =
      llama_on_h100({{"software", "torchtitan", ""}, {"cpu_offloading_num_layers", "2", ""}});
  EXPECT_NE(why_unpredictable(eager, load_hardware("h100-sxm-80gb"))
                .value_or("")
                .find("cpu_offloading_num_layers: found 2"),
            std::string::npos);
}

// FSDP of a mixture on eight ranks: experts are sharded over the ranks that have the same, all else over all.
TEST(FrameworkStates, ExpertsAreShardedOverTheirCopies) {
  constexpr std::int64_t rest =
      32 * std::int64_t{4096 * (2 * 4096 + 2 * 1024) + 8 * 4096} + 65 * 4096 + 2 * std::int64_t{32000} * 4096;
  constexpr std::int64_t expert = 3 * std::int64_t{4096} * 14336;
  for (const int ranks : {1, 2, 4, 8}) {
    const RunConfig config = load_run_config("", {{"model", "mixtral-8x7b", ""},
                                                  {"software", "torchtitan-2025", ""},
                                                  {"world_size", "8", ""},
                                                  {"expert_model_parallel_size", std::to_string(ranks), ""},
                                                  {"zero_stage", "3", ""}});
    const StageShape shape = stage_shapes(config, 1).front();
    const MemoryBreakdown held = framework_held_bytes({&shape, 1});
    const std::int64_t elements = rest / 8 + 32 * expert;  // 8 ÷ ranks experts over 8 ÷ (8 ÷ ranks) copies
    EXPECT_EQ(held[Category::parameters].value, 4 * elements) << ranks;
    EXPECT_EQ(held[Category::gradients].value, 4 * elements) << ranks;
    EXPECT_EQ(held[Category::optimizer].value, 8 * elements) << ranks;
    // A rank receives 7/8 of the rest and of its experts the share that other copies hold.
    std::int64_t gathered = 0;
    for (const UnitWork& part : framework_work(shape, ActionType::forward).parts)
      if (!part.apart) gathered = std::max(gathered, part.gather.elements());
    const double copies = 8.0 / ranks;
    const double received = 7.0 / 8 * 41975808 + (1 - 1 / copies) * copies * static_cast<double>(expert);
    EXPECT_NEAR(7.0 / 8 * static_cast<double>(gathered), received, 2) << ranks;
  }
}

// Two layers' weights in 16 bit or FP8, and their gradients, are whole while a layer's backward runs.
TEST(FrameworkStates, TwoLayersAreWholeWithFsdp) {
  constexpr std::int64_t adapters =
      16 * (4096 + 4096 + 2 * 1024 + 2 * 4096 + 4096 + 2 * 14336 + 14336 + 4096);
  struct Case {
    const char* software;
    const char* gradients;
    const char* frozen;
    std::int64_t bytes;  // of a layer
  };
  const Case cases[] = {{"torchtitan-compile", "fp32", "none", 6 * kLayerWeights},
                        {"torchtitan-compile", "same", "none", 4 * kLayerWeights},
                        {"torchtitan-compile", "fp32", "lora", 2 * kLayerWeights + 4 * adapters}};
  for (const Case& c : cases) {
    const RunConfig config = llama_on_h100({{"software", c.software, ""},
                                            {"world_size", "8", ""},
                                            {"zero_stage", "3", ""},
                                            {"grad_dtype", c.gradients, ""},
                                            {"frozen", c.frozen, ""},
                                            {"lora_rank", "16", ""},
                                            {"lora_targets", "all", ""}});
    StageShape shape = stage_shapes(config, 1).front();
    shape.place.last = false;  // without the loss
    EXPECT_EQ(framework_action_profile(shape, ActionType::backward).peak[Category::workspace].value,
              4 * 1024 * (14336 + 4096) + 2 * c.bytes)
        << c.gradients << ' ' << c.frozen;
  }
}

// LLaMA-7B in fp16 on eight V100 of 32 GB: with ZeRO 2 users ran out when 3.14 GiB were asked for besides
// 28.28 GiB; ZeRO 3 ran.
TEST(FrameworkStates, DeepSpeedsUpdateNeedsGradientsInFp32) {
  struct Case {
    const char* stage;
    double peak_gib;  // 0: not known
    bool fits;
  };
  for (const Case& c : {Case{"2", 28.28 + 3.14, false}, Case{"3", 0, true}}) {
    const RunConfig config = load_run_config("", {{"model", "llama-2-7b", ""},
                                                  {"hardware", "v100-sxm-32gb", ""},
                                                  {"software", "deepspeed", ""},
                                                  {"world_size", "8", ""},
                                                  {"zero_stage", c.stage, ""},
                                                  {"recompute_granularity", "full", ""},
                                                  {"seq_length", "512", ""},
                                                  {"precision", "fp16", ""}});
    const Prediction prediction = predict(config, step_for(config), load_hardware("v100-sxm-32gb"));
    EXPECT_EQ(prediction.fit.fits, c.fits) << c.stage;
    if (c.peak_gib == 0) continue;
    EXPECT_NEAR(static_cast<double>(prediction.memory.peak.value) / (1 << 30), c.peak_gib, 0.03 * c.peak_gib);
    EXPECT_EQ(prediction.memory.ranks.front().at, "0OPT0");
  }
}

// Llama 2 7B in Megatron-LM's former transformer on eight H800, whose SwiGLU keeps its activated half, too.
// The sequence is not printed with the peaks; 2048 is assumed.
TEST(FrameworkStates, FormerSwigluKeepsThreeValues) {
  struct Case {
    const char* micro_batch;
    const char* tensor;
    double peak_gib;
  };
  for (const Case& c : {Case{"2", "1", 69.1}, Case{"4", "2", 55.7}}) {
    const RunConfig config = load_run_config("", {{"model", "llama-2-7b", ""},
                                                  {"hardware", "h800-sxm-80gb", ""},
                                                  {"software", "megatron-2022", ""},
                                                  {"world_size", "8", ""},
                                                  {"tensor_model_parallel_size", c.tensor, ""},
                                                  {"zero_stage", "1", ""},
                                                  {"micro_batch_size", c.micro_batch, ""},
                                                  {"global_batch_size", "256", ""},
                                                  {"seq_length", "2048", ""},
                                                  {"precision", "bf16", ""}});
    const Prediction prediction = predict(config, step_for(config), load_hardware("h800-sxm-80gb"));
    EXPECT_NEAR(static_cast<double>(prediction.memory.peak.value) / (1 << 30), c.peak_gib, 0.03 * c.peak_gib)
        << c.micro_batch;
  }
}

}  // namespace
}  // namespace plumbline::framework_states_test
