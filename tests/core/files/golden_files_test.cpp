// The committed golden models are read by our own readers, and shapes, names and sizes agree.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/config/config_checks.hpp"
#include "core/config/run_config.hpp"
#include "core/config_text/load_config.hpp"
#include "core/files/safetensors.hpp"
#include "core/files/token_data.hpp"

namespace plumbline::golden_files_test {
namespace {

class GoldenFiles : public testing::TestWithParam<const char*> {};

TEST_P(GoldenFiles, AgreeWithEachOther) {
  const std::string folder = std::string(PLUMBLINE_SOURCE_DIR) + "/tests/golden/" + GetParam();
  const RunConfig config = load_run_config(folder + "/run.yaml", {});
  std::ifstream in(folder + "/expected.json");
  const nlohmann::json expected = nlohmann::json::parse(in);
  EXPECT_EQ(std::string(GetParam()).rfind(config.model.architecture, 0), 0U) << "the folder's first word";
  EXPECT_EQ(config.model.parameters(), expected.at("parameters").get<std::int64_t>());
  EXPECT_EQ(config.batch.seq_length, expected.at("seq_length").get<std::int64_t>());
  EXPECT_EQ(config.batch.global_batch_size, expected.at("global_batch_size").get<std::int64_t>());
  EXPECT_EQ(why_invalid(config), std::nullopt);
  EXPECT_EQ(why_unsupported(config), std::nullopt);

  const TensorFile weights(config.files.weights);
  const TensorFile gradients(folder + "/gradients.safetensors");
  EXPECT_EQ(weights.names(), gradients.names());
  std::int64_t elements = 0;
  double squares = 0;
  for (const std::string& name : weights.names()) {
    const StoredTensor& gradient = gradients.get(name);
    EXPECT_EQ(weights.get(name).shape, gradient.shape) << name;
    EXPECT_EQ(gradient.type, StoredType::fp32) << name;
    elements += gradient.elements();
    for (std::int64_t i = 0; i < gradient.elements(); ++i) squares += double{gradient.at(i)} * gradient.at(i);
  }
  EXPECT_EQ(elements, config.model.parameters());
  EXPECT_NEAR(std::sqrt(squares), expected.at("gradient_norm").get<double>(), 1e-9);

  const TokenSource tokens(config.files.data, config.model.vocab, config.batch.seq_length,
                           config.measure.seed);
  EXPECT_EQ(tokens.tokens(), config.batch.global_batch_size * config.batch.seq_length + 1);
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenFiles,
                         testing::Values("qwen2", "llama", "gpt2", "mistral", "qwen2_window"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace plumbline::golden_files_test
