// Golden models that generate on the ranks of a test.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bench/training/generate/generator.hpp"
#include "core/backends/mpi/mpi_communicator.hpp"
#include "core/config/config_checks.hpp"
#include "core/config_text/load_config.hpp"
#include "kernels/cpu/cpu_operators.hpp"
#include "tests/bench/training/generate/golden_generation.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::generation {

constexpr std::int64_t kNewTokens = 8;
constexpr std::int64_t kLongest = 16;

inline std::string golden_folder(const std::string& name) {
  return fmt::format("{}/tests/golden/{}", PLUMBLINE_SOURCE_DIR, name);
}

/// Unequal prompts, one of them longer than the windows of 5; more than fit together.
inline GenerationRequest request_of(std::int64_t vocab, std::int64_t seed) {
  GenerationRequest request;
  request.max_new_tokens = kNewTokens;
  for (const std::int64_t length : {3, 8, 1, 5}) {
    std::vector<std::int32_t>& prompt = request.prompts.emplace_back();
    for (std::int64_t i = 0; i < length; ++i)
      prompt.push_back(static_cast<std::int32_t>((seed * 31 + i * 17 + length * 7) % vocab));
  }
  return request;
}

/// With experts spread over the replicas.
inline RunConfig config_of(const std::string& name, const Layout& layout) {
  RunConfig config = load_run_config(golden_folder(name) + "/run.yaml", {});
  training::set_layout(config, layout);
  if (config.model.mixture) config.parallel.expert = layout.data;
  config.generation.task = RunTask::generate;
  config.batch.seq_length = kLongest;
  config.batch.micro_batch_size = 3;
  config.batch.global_batch_size = config.batch.micro_batch_size * layout.data;
  config.generation.max_new_tokens = kNewTokens;
  return config;
}

inline GenerationResult generate_on_cpu(const RunConfig& config, const GenerationRequest& request) {
  MpiCommunicator communicator(config.layout());
  const auto operators = make_cpu_operators();
  return generate(config, request, *operators, communicator, communicator, host_memory());
}

/// Splits of these ranks that the model allows, tensor x pipeline x replicas.
inline std::vector<Layout> splits_of(const std::string& name, int ranks) {
  constexpr std::string_view kWithReplicas[] = {"llama", "families/deepseek_v3", "families/mixtral"};
  const bool replicas = std::ranges::find(kWithReplicas, name) != std::end(kWithReplicas);
  const ModelConfig model = config_of(name, {1, 1, 1}).model;
  const bool whole = model.norms.qk && model.predicted.query_norm == QueryNorm::width;
  std::vector<Layout> fitting;
  for (const Layout& layout : training::layouts_of(ranks)) {
    if ((layout.data > 1 && !replicas) || layout.pipeline > model.layers || (whole && layout.tensor > 1))
      continue;
    if (!why_tensor_split_invalid(model, layout.tensor)) fitting.push_back(layout);
  }
  return fitting;
}

/// Calls use(configuration, its name for people) for every split that generates.
template <class Use>
void each_split(const std::string& name, const Use& use) {
  for (const Layout& layout : splits_of(name, training::world_ranks())) {
    const RunConfig config = config_of(name, layout);
    const std::string what =
        fmt::format("{} tp{} pp{} dp{}", name, layout.tensor, layout.pipeline, layout.data);
    ASSERT_EQ(why_generation_invalid(config), std::nullopt) << what;
    ASSERT_EQ(why_not_generated(config), "") << what;
    use(config, what);
  }
}

inline bool generates(const std::string& name) {
  return why_not_generated(config_of(name, {1, 1, 1})).empty();
}

inline bool in_transformers(const std::string& name) {
  return golden::generation_file().find(name + "/tokens") != nullptr;
}

/// Every golden model that generates, "families/qwen3".
inline std::vector<std::string> golden_models() {
  std::vector<std::string> names = {"llama", "mistral", "qwen2", "gpt2", "qwen2_window"};
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder("families")))
    names.push_back("families/" + entry.path().filename().string());
  std::erase_if(names, [](const std::string& name) { return !generates(name); });
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string test_name(const testing::TestParamInfo<std::string>& model) {
  return model.param.substr(model.param.find('/') + 1);
}

}  // namespace plumbline::generation
