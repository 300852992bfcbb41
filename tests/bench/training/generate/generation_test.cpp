// Greedy generation with a KV cache against transformers' generate, over every family of models.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tests/bench/training/generate/generation_fixture.hpp"  // uses PLUMBLINE_SOURCE_DIR

namespace plumbline::generation::generation_test {
namespace {

std::vector<std::string> models_of_transformers() {
  std::vector<std::string> names = golden_models();
  std::erase_if(names, [](const std::string& name) { return !in_transformers(name); });
  return names;
}

/// A golden model with positions for longer texts than its checkpoint has: rotary ones go on, and a table of
/// learned ones is repeated, by 3/4, 2/4 and 1/4, as make_generation.py does.
class LongerModel {
 public:
  explicit LongerModel(const std::string& name) {
    if (config_of(name, {1, 1, 1}).model.position.kind != Positions::learned) return;
    const TensorFile file(golden_folder(name));
    std::vector<TensorFileWriter::Entry> entries;
    for (const std::string& tensor : file.names()) {
      entries.push_back({tensor, file.get(tensor).type, file.get(tensor).shape});
      if (is_table(tensor))
        entries.back().shape[0] += kLongText - config_of(name, {1, 1, 1}).model.position.max;
    }
    path_ = fmt::format("{}/plumbline-longer-{}.safetensors", testing::TempDir(), ::getpid());
    TensorFileWriter writer(path_, entries);
    for (const TensorFileWriter::Entry& entry : entries) {
      const StoredTensor& from = file.get(entry.name);
      if (!is_table(entry.name)) {
        writer.write(entry.name, from.bytes);
        continue;
      }
      std::vector<float> longer(static_cast<std::size_t>(entry.shape[0] * entry.shape[1]));
      for (std::int64_t i = 0; i < std::ssize(longer); ++i)
        longer[static_cast<std::size_t>(i)] =
            from.at(i % from.elements()) * (1 - static_cast<float>(i / from.elements()) / 4);
      writer.write(entry.name, std::as_bytes(std::span(longer)));
    }
    writer.finish();
  }
  ~LongerModel() {
    if (!path_.empty()) std::filesystem::remove(path_);
  }
  LongerModel(const LongerModel&) = delete;
  LongerModel& operator=(const LongerModel&) = delete;

  /// Two sequences together, fewer than there are prompts.
  void change(RunConfig& config, std::int64_t new_tokens) const {
    config.model.position.max = std::max(config.model.position.max, kLongText);
    config.batch.seq_length = kLongText;
    config.batch.micro_batch_size = 2;
    config.batch.global_batch_size = config.batch.micro_batch_size * config.parallel.data();
    config.generation.max_new_tokens = new_tokens;
    if (!path_.empty()) config.files.weights = path_;
  }

 private:
  static constexpr std::int64_t kLongText = 72;  // POSITIONS of make_generation.py
  static bool is_table(const std::string& tensor) {
    return tensor.find("wpe") != std::string::npos || tensor.find("embed_positions") != std::string::npos;
  }
  std::string path_;
};

class GenerationOfModel : public testing::TestWithParam<std::string> {};

TEST_P(GenerationOfModel, EqualsTransformers) {
  const std::string name = GetParam();
  constexpr std::string_view kOnFourRanks[] = {
      "llama",         "gpt2",           "qwen2_window",         "families/bloom",
      "families/opt",  "families/phi",   "families/deepseek_v3", "families/mixtral",
      "families/glm4", "families/gemma2"};
  if (training::world_ranks() == 4 && std::ranges::find(kOnFourRanks, name) == std::end(kOnFourRanks))
    GTEST_SKIP() << "two ranks have shown it";
  const std::vector<golden::Generation> expected = golden::generations_of(name);
  GenerationRequest request;
  request.max_new_tokens = std::ssize(expected.front().ids);
  for (const golden::Generation& each : expected) request.prompts.push_back(each.prompt);
  const LongerModel longer(name);
  each_split(name, [&](RunConfig config, const std::string& what) {
    longer.change(config, request.max_new_tokens);
    const GenerationResult found = generate_on_cpu(config, request);
    ASSERT_EQ(found.sequences.size(), expected.size()) << what;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found.sequences[i].ids, expected[i].ids) << what << " sequence " << i;
      EXPECT_THAT(found.sequences[i].log_probabilities,
                  testing::Pointwise(testing::DoubleNear(1e-5), expected[i].log_probabilities))
          << what << " sequence " << i;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Models, GenerationOfModel, testing::ValuesIn(models_of_transformers()), test_name);

}  // namespace
}  // namespace plumbline::generation::generation_test
