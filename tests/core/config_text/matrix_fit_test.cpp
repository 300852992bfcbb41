// Sizes of a matrix for quicker and slower machines, and budgets that are shares of a peak.
#include "core/config_text/matrix_fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.hpp"
#include "core/config_text/matrix_config.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::matrix_fit_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kBase =
    "model: {model_type: llama, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 4, vocab_size: "
    "100, "
    "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 32}\nglobal_batch_size: 8\n"
    "matrix:\n  cell:\n    - {tp: 1}\n    - {tp: 2, memory_budget: 40%}\n    - {tp: 4, memory_budget: "
    "2MiB}\n";

class MatrixFitFile : public testing::Test {
 protected:
  ~MatrixFitFile() override { fs::remove(path_); }
  std::string write(const std::string& text) const {
    std::ofstream(path_) << text;
    return path_.string();
  }
  std::string complaint(const std::string& text) const {
    return test::refusal_of([&] {
      const std::string path = write(text);
      const auto fit = load_fit(path);
      load_matrix(path, {}, fit ? fit->settings(0, "") : Settings{});
    });
  }
  fs::path path_ =
      fs::path(testing::TempDir()) / ("plumbline_fit_test." + std::to_string(::getpid()) + ".yaml");
};

TEST_F(MatrixFitFile, ASizeIsPutUnderTheCells) {
  const std::string path =
      write(std::string(kBase) +
            "fit:\n  seconds: 90\n  precision: [bf16, fp32]\n  sizes:\n"
            "    - {model: {hidden_size: 32}, seq_length: 16}\n    - {seq_length: 32}\n");
  const auto fit = load_fit(path);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->target, Seconds{90});
  EXPECT_THAT(fit->precisions, ElementsAre("bf16", "fp32"));
  ASSERT_EQ(fit->sizes.size(), 2U);

  const auto plain = load_matrix(path, {});
  const auto small = load_matrix(path, {}, fit->settings(0, "bf16"));
  const auto large = load_matrix(path, {}, fit->settings(1, ""));
  ASSERT_EQ(small.size(), 3U);
  EXPECT_EQ(small[1].config.model.hidden, 32);
  EXPECT_EQ(small[1].config.model.layers, 4) << "what the size does not say stays";
  EXPECT_EQ(small[1].config.batch.seq_length, 16);
  EXPECT_EQ(small[1].config.parallel.tensor, 2);
  EXPECT_EQ(small[1].config.numerics.precision, DType::bf16);
  EXPECT_EQ(large[1].config.model.hidden, 64);
  EXPECT_EQ(large[1].config.numerics.precision, plain[1].config.numerics.precision);
  EXPECT_NE(small[0].id, large[0].id);
  EXPECT_NE(small[0].id, plain[0].id);
  EXPECT_EQ(load_matrix(path, {{"seq_length", "8"}}, fit->settings(1, ""))[0].config.batch.seq_length, 8);

  EXPECT_EQ(load_fit(write(kBase)), std::nullopt);
}

TEST_F(MatrixFitFile, ABudgetMayBeAShare) {
  const auto cells = load_matrix(write(kBase), {});
  EXPECT_EQ(cells[0].budget_share, 0);
  EXPECT_EQ(cells[1].budget_share, 0.4);
  EXPECT_EQ(cells[1].config.machine.memory_budget, Bytes{}) << "whoever predicts knows the peak";
  EXPECT_EQ(cells[2].budget_share, 0);
  EXPECT_EQ(cells[2].config.machine.memory_budget, kMiB * 2);
  EXPECT_EQ(load_matrix(path_.string(), {{"memory_budget", "1MiB"}})[1].budget_share, 0);
}

TEST_F(MatrixFitFile, MistakesAreOneClearLine) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"fit: 3\n", "fit: expected a mapping with seconds: and sizes:"},
      {"fit: {sizes: [{seq_length: 16}]}\n", "fit: seconds: missing"},
      {"fit: {seconds: soon, sizes: [{seq_length: 16}]}\n", "fit: seconds: expected a number above 0"},
      {"fit: {seconds: 0, sizes: [{seq_length: 16}]}\n", "fit: seconds: expected a number above 0"},
      {"fit: {seconds: 9}\n", "fit: sizes: missing"},
      {"fit: {seconds: 9, sizes: []}\n", "fit: sizes: expected a list of 1 to 100 mappings"},
      {"fit: {seconds: 9, sizes: [4]}\n", "fit: sizes: expected mappings"},
      {"fit: {seconds: 9, sizes: [{seq_lenth: 4}]}\n", "unknown key \"seq_lenth\""},
      {"fit: {seconds: 9, sizes: [{tp: 4}]}\n",
       "fit: sizes: tensor_model_parallel_size: found in the matrix"},
      {"fit: {seconds: 9, precision: [bf17], sizes: [{seq_length: 4}]}\n", "precision: found \"bf17\""},
      {"fit: {seconds: 9, precision: bf16, sizes: [{seq_length: 4}]}\n", "fit: precision: expected a list"},
      {"fit: {second: 9, sizes: [{seq_length: 4}]}\n", "fit: second: unknown key"},
      {"memory_budget: 0%\n", "memory_budget: found \"0%\", expected a share of the predicted peak"},
  };
  for (const auto& [text, fragment] : kCases) {
    const std::string line = complaint(std::string(kBase) + text);
    EXPECT_THAT(line, HasSubstr(fragment)) << text;
    EXPECT_THAT(line, HasSubstr(path_.filename().string() + ":"));
    EXPECT_EQ(line.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace plumbline::matrix_fit_test
