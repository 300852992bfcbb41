// Host work of frameworks in a step: tensors of checkpoints as transformers wrote them, and what times gain.
#include "analysis/reinforcement/rl_framework.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "core/config/model_config.hpp"
#include "core/files/safetensors.hpp"

namespace plumbline::rl_framework_test {
namespace {

TEST(CheckpointTensors, AreThoseOfPublishedModels) {
  // "weight_map" of model.safetensors.index.json on the Hugging Face hub.
  const std::pair<const char*, std::int64_t> published[] = {
      {"llama-3.1-8b", 291}, {"qwen2.5-7b", 339}, {"mixtral-8x7b", 995}, {"qwen3-30b-a3b", 18'867}};
  for (const auto& [model, tensors] : published)
    EXPECT_EQ(checkpoint_tensors(*find_preset(model)), tensors) << model;
}

/// Several projections in one tensor, or all experts: fewer than a tensor for each.
bool is_fused(const std::string& name) {
  constexpr std::string_view kFused[] = {"qkv",          "query_key_value", "c_attn",   "W_pack",
                                         "gate_up",      "dense_h_to_4h",   "Wqkv",     "expert_bias",
                                         "experts.gate", "rotary",          "inv_freq", "e_score"};
  return std::any_of(std::begin(kFused), std::end(kFused),
                     [&](std::string_view part) { return name.find(part) != std::string::npos; });
}

TEST(CheckpointTensors, AreThoseOfTransformersFiles) {
  int compared = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(std::string(PLUMBLINE_SOURCE_DIR) + "/tests/golden/families")) {
    const std::string path = folder.path().string();
    const std::vector<std::string> names = TensorFile(path).names();
    if (std::any_of(names.begin(), names.end(), is_fused)) continue;
    const ModelConfig model = load_model_config(path + "/config.json");
    EXPECT_EQ(checkpoint_tensors(model), std::ssize(names)) << path;
    ++compared;
  }
  EXPECT_GT(compared, 15);
}

}  // namespace
}  // namespace plumbline::rl_framework_test
