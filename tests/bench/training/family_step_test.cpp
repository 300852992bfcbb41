// Every family of models against transformers, or against PyTorch written from the published definition
// (tests/golden/families). Compares first gradients in several splits, with the memory that was predicted,
// and the losses of ten AdamW steps.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "bench/plan/plan.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config/families/families.hpp"
#include "core/config_text/load_config.hpp"
#include "core/files/safetensors.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/support/predicted_step.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training::family_step_test {
namespace {

constexpr const char* kFamilyModels[] = {"qwen3",
                                         "gpt_bigcode",
                                         "starcoder2",
                                         "bloom",
                                         "falcon_rw",
                                         "falcon_7b",
                                         "falcon_40b",
                                         "opt",
                                         "opt_galactica",
                                         "nemotron",
                                         "gemma",
                                         "glm",
                                         "baichuan",
                                         "baichuan_13b",
                                         "chatglm",
                                         "phi",
                                         "phi3",
                                         "baichuan2",
                                         "chatglm_6b",
                                         "glm_10b",
                                         "glm_130b",
                                         "mixtral",
                                         "qwen3_moe",
                                         "qwen2_moe",
                                         "glm4_moe",
                                         "deepseek_v3",
                                         "qwen3_moe_window",
                                         "qwen2_moe_window",
                                         "arcee",
                                         "seed_oss",
                                         "ministral",
                                         "ernie4_5",
                                         "stablelm",
                                         "gpt_neox",
                                         "dots1",
                                         "smollm3",
                                         "granite",
                                         "hunyuan_v1_dense",
                                         "hunyuan_v1_moe",
                                         "ernie4_5_moe",
                                         "qwen2_moe_dense",
                                         "olmo2",
                                         "olmo3",
                                         "exaone4",
                                         "glm4",
                                         "gemma2",
                                         "olmoe",
                                         "minimax_m2"};

std::string folder_of(const std::string& name) {
  return fmt::format("{}/tests/golden/families/{}", PLUMBLINE_SOURCE_DIR, name);
}

nlohmann::json expected_of(const std::string& name) {
  std::ifstream file(folder_of(name) + "/expected.json");
  return nlohmann::json::parse(file);
}

/// Without gradients that are zero up to rounding: biases of keys, which a softmax does not see.
Tensors gradients_of(const std::string& path) {
  const TensorFile file(path);
  Tensors gradients;
  for (const std::string& tensor_name : file.names()) {
    const StoredTensor& tensor = file.get(tensor_name);
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(tensor.elements()));
    float largest = 0;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      values.push_back(tensor.at(i));
      largest = std::max(largest, std::abs(values.back()));
    }
    if (largest > 1e-6F) gradients[tensor_name] = std::move(values);
  }
  return gradients;
}

struct Split {
  Layout layout;  // tensor, pipeline, data
  const char* schedule = "1f1b";
  bool sequence_parallel = false;
  int zero = 0;
  Recompute recompute = Recompute::none;
};

/// Tensor ranks have a part of the heads each, and norms over all of them are not executed there.
bool norms_all_heads(const ModelConfig& model) {
  return model.norms.qk && model.predicted.query_norm == QueryNorm::width;
}

std::vector<Split> splits_of(int ranks, bool tensor) {
  if (ranks == 1) return {{{1, 1, 1}}, {{1, 1, 1}, "1f1b", false, 0, Recompute::full}};
  if (ranks == 2 && !tensor) {
    return {{{1, 2, 1}}, {{1, 2, 1}, "zb-h1"}, {{1, 1, 2}, "1f1b", false, 3}};
  }
  if (ranks == 2) {
    return {{{2, 1, 1}},
            {{2, 1, 1}, "1f1b", true, 0, Recompute::selective},
            {{1, 2, 1}},
            {{1, 2, 1}, "zb-h1"},
            {{1, 1, 2}, "1f1b", false, 3}};
  }
  if (!tensor) return {{{1, 2, 2}, "zb-h1"}, {{1, 2, 2}, "1f1b", false, 3}};
  return {{{2, 2, 1}, "zb-h1", true}, {{2, 1, 2}, "1f1b", true, 3}};
}

class FamilyStep : public testing::TestWithParam<const char*> {};

TEST_P(FamilyStep, LossAndGradientsEqualTransformers) {
  const std::string name = GetParam();
  const double loss = expected_of(name)["loss"].get<double>();
  const auto gradients = gradients_of(folder_of(name) + "/gradients.safetensors");
  int compared = 0;
  const ModelConfig model = load_model_config(folder_of(name) + "/config.json");
  for (const Split& split : splits_of(world_ranks(), !norms_all_heads(model))) {
    RunConfig config = load_run_config(folder_of(name) + "/run.yaml", {});
    set_layout(config, split.layout);
    config.parallel.pp.schedule = split.schedule;
    config.parallel.sequence_parallel = split.sequence_parallel;
    config.parallel.dp.zero_stage = split.zero;
    config.recompute.granularity = split.recompute;
    const std::string what =
        fmt::format("{} tp{} pp{} dp{} {} sp{} zero{}", name, split.layout.tensor, split.layout.pipeline,
                    split.layout.data, split.schedule, split.sequence_parallel, split.zero);
    ASSERT_EQ(why_invalid(config), std::nullopt) << what;
    MpiCommunicator communicator(config.layout());
    StepResult found = one_step(config, communicator);
    EXPECT_NEAR(found.loss / loss, 1, 1e-5) << what;
    ++compared;
    if (communicator.rank() != 0) continue;
    expect_memory(config, found);
    std::erase_if(found.gradients, [&](const auto& tensor) { return !gradients.contains(tensor.first); });
    expect_gradients(gradients, found.gradients, 1e-4, what);
  }
  EXPECT_GT(compared, 1);
}

TEST_P(FamilyStep, TenStepsOfAdamWEqualPyTorchs) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "two ranks have shown it";
  const std::string name = GetParam();
  const nlohmann::json expected = expected_of(name)["losses"];
  RunConfig config = load_run_config(folder_of(name) + "/run.yaml", {});
  const bool tensor = !norms_all_heads(config.model);
  set_layout(config, tensor ? Layout{ranks, 1, 1} : Layout{1, 1, ranks});
  config.measure.warmup_steps = 1;  // steps like the others
  config.measure.steps = static_cast<int>(expected.size()) - 1;
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  const TrainingResult result =
      train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
  ASSERT_EQ(result.losses.size(), expected.size());
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_NEAR(result.losses[step] / expected[step].get<double>(), 1, 1e-5) << name << " step " << step;
  }
}

TEST_P(FamilyStep, SavesTheGradientOfEveryTrainedTensor) {
  const int ranks = world_ranks();
  if (ranks > 2) GTEST_SKIP() << "two ranks have shown it";
  const std::string name = GetParam();
  RunConfig config = load_run_config(folder_of(name) + "/run.yaml", {});
  set_layout(config, {1, ranks, 1});
  config.measure.warmup_steps = 0;
  config.measure.steps = 1;
  config.files.save_gradients = fmt::format("{}/plumbline_gradients_{}_{}", testing::TempDir(), name, ranks);
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  train(config, schedule_for(config), *operators, communicator, communicator, host_memory(), {});
  communicator.barrier(Group::world);
  if (communicator.rank() != 0) return;
  const auto names = [](const std::string& path) { return TensorFile(path).names(); };
  EXPECT_EQ(names(config.files.save_gradients), names(folder_of(name) + "/gradients.safetensors"));
  const auto expected = gradients_of(folder_of(name) + "/gradients.safetensors");
  auto found = gradients_of(config.files.save_gradients);
  std::erase_if(found, [&](const auto& tensor) { return !expected.contains(tensor.first); });
  expect_gradients(expected, found, 1e-4);
  std::filesystem::remove(config.files.save_gradients);
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyStep, testing::ValuesIn(kFamilyModels),
                         [](const auto& model) { return std::string(model.param); });

TEST(Families, EveryRowOfTheTableHasAGoldenModel) {
  std::set<std::string> shown = {"llama", "mistral", "qwen2", "gpt2"};  // golden_step_test
  for (const char* name : kFamilyModels) {
    shown.insert(load_model_config(folder_of(name) + "/config.json").architecture);
  }
  for (const auto table : {families(), recent_families()}) {
    for (const Family& family : table)
      EXPECT_TRUE(shown.contains(std::string(family.architecture))) << family.architecture;
  }
}

}  // namespace
}  // namespace plumbline::training::family_step_test
