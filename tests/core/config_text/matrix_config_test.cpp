// Matrix files: product, exclude, include, ids, invalid cells, limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/error.hpp"
#include "core/config/run_config.hpp"
#include "core/config_text/matrix_config.hpp"
#include "tests/support/refusal.hpp"

namespace plumbline::matrix_config_test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kBase =
    "model: {model_type: llama, hidden_size: 64, intermediate_size: 96, num_hidden_layers: 4, vocab_size: "
    "100, "
    "num_attention_heads: 4, num_key_value_heads: 2, max_position_embeddings: 32}\nglobal_batch_size: 8\n";

std::vector<MatrixCell> cells(const std::string& text, const Overrides& overrides = {}) {
  const fs::path path =
      fs::path(testing::TempDir()) / ("plumbline_matrix_test." + std::to_string(::getpid()) + ".yaml");
  std::ofstream(path) << text;
  struct Removal {
    const fs::path& path;
    ~Removal() { fs::remove(path); }
  } const removal{path};
  return load_matrix(path.string(), overrides);
}
std::string complaint(const std::string& text) {
  return test::refusal_of([&] { cells(text); });
}
/// The varied values of every cell as text: "tensor_model_parallel_size=1 seq_length=16".
std::vector<std::string> values(const std::vector<MatrixCell>& list) {
  std::vector<std::string> lines;
  for (const MatrixCell& cell : list) {
    std::string line;
    for (const auto& [key, value] : cell.values) line += (line.empty() ? "" : " ") + key + "=" + value;
    lines.push_back(line);
  }
  return lines;
}

TEST(Matrix, IsTheProductOfItsLists) {
  const auto list =
      cells(std::string(kBase) + "matrix:\n  tp: [1, 2]\n  pipeline_model_parallel_size: [1, 2, 4]\n");
  ASSERT_EQ(list.size(), 6U);
  EXPECT_EQ(values(list)[1], "tensor_model_parallel_size=1 pipeline_model_parallel_size=2");
  EXPECT_EQ(list[5].config.parallel.world_size, 8);
  EXPECT_EQ(list[5].config.batch.global_batch_size, 8);
  std::set<std::string> ids;
  for (const MatrixCell& cell : list) {
    EXPECT_EQ(cell.invalid, "");
    ids.insert(cell.id);
    EXPECT_EQ(cell.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789._-"), std::string::npos)
        << cell.id;
  }
  EXPECT_EQ(ids.size(), 6U);
  EXPECT_THAT(list[5].id, testing::StartsWith("tp2_pp4-"));
}

TEST(Matrix, IdsAreStableAndDependOnEverySetting) {
  const std::string matrix = "matrix:\n  tp: [1, 2]\n";
  const auto once = cells(kBase + matrix);
  const auto again = cells("# a comment\n" + matrix + kBase);
  EXPECT_EQ(once[0].id, again[0].id);
  EXPECT_EQ(once[1].id, again[1].id);
  EXPECT_EQ(once[0].id, cells(kBase + std::string("matrix:\n  tensor_model_parallel_size: [1]\n"))[0].id);
  EXPECT_NE(once[0].id, cells(kBase + matrix, {{"seq_length", "16"}})[0].id);
}

TEST(Matrix, CellsWhoseSizesDoNotDivideKeepTheReason) {
  const auto list = cells(std::string(kBase) + "world_size: 4\nmatrix:\n  tp: [1, 2, 3]\n  pp: [1, 4]\n");
  ASSERT_EQ(list.size(), 6U);
  EXPECT_EQ(list[0].invalid, "");
  EXPECT_EQ(list[0].config.parallel.data(), 4);
  EXPECT_THAT(list[3].invalid, HasSubstr("world_size"));  // tp 2 x pp 4 > 4
  EXPECT_THAT(list[4].invalid, HasSubstr("world_size"));
  EXPECT_THAT(cells(std::string(kBase) + "world_size: 4\nmatrix:\n  dp: [3, 4]\n")[0].invalid,
              HasSubstr("1 x 1 x 1 x 3"));
}

TEST(Matrix, ExcludeAndIncludeFollowGitHubActions) {
  const std::string text = std::string(kBase) + R"(
matrix:
  tp: [1, 2]
  precision: [fp32, bf16]
  exclude:
    - {tp: 2, precision: bf16}
include:
  - {seq_length: 16}                          # new key: joins every cell
  - {seq_length: 24, tp: 2}                   # may overwrite what an include added
  - {tp: 1, precision: fp32, optimizer: sgd}  # joins the one cell that agrees
  - {tp: 4, precision: bf16}                  # agrees with none: a new cell
  - {tp: 4, seq_length: 8}                    # a new cell again, not joined to the new one
)";
  const std::string tp = "tensor_model_parallel_size=";
  EXPECT_EQ(values(cells(text)), (std::vector<std::string>{
                                     tp + "1 seq_length=16 precision=fp32 optimizer=sgd",
                                     tp + "1 seq_length=16 precision=bf16",
                                     tp + "2 seq_length=24 precision=fp32",
                                     tp + "4 precision=bf16",
                                     tp + "4 seq_length=8",
                                 }));
  EXPECT_EQ(values(cells(std::string(kBase) + "include:\n  - {tp: 2}\n  - {pp: 2}\n")),
            (std::vector<std::string>{tp + "2", "pipeline_model_parallel_size=2"}));
  EXPECT_EQ(cells(kBase).size(), 1U);
}

TEST(Matrix, ListsOfMappingsAndOfModels) {
  const auto list = cells(
      "gbs: 8\nmatrix:\n  split:\n    - {tp: 1, pp: 1, dp: 2}\n    - {tp: 2, pp: 1}\n"
      "  model:\n    - gpt2-124m\n    - {model_type: gpt2, n_embd: 48, n_layer: 3, n_head: 4, "
      "n_positions: 1024, vocab_size: 9, _name_or_path: tiny}\n");
  ASSERT_EQ(list.size(), 4U);
  EXPECT_EQ(list[0].config.parallel.data(), 2);
  EXPECT_EQ(list[3].config.parallel.tensor, 2);
  EXPECT_EQ(list[3].config.model.hidden, 48);
  EXPECT_EQ(list[3].values[0].second, "tiny");
  EXPECT_NE(list[0].id, list[1].id);
}

TEST(Matrix, AnOverrideAppliesToEveryCell) {
  const auto list = cells(std::string(kBase) + "matrix:\n  tp: [1, 2]\n  pp: [1, 2]\n", {{"tp", "2"}});
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].config.parallel.tensor, 2);
}

TEST(Matrix, RefusesWithFileLineAndKey) {
  struct Case {
    const char* text;
    std::vector<const char*> fragments;
  };
  const std::vector<Case> cases = {
      {"matrix:\n  seq_lenght: [1]\n", {".yaml:4: ", "seq_lenght", "seq_length"}},
      {"matrix:\n  tp: 2\n", {":4: tp: expected a list"}},
      {"matrix:\n  tp: []\n", {":4: tp: expected a list"}},
      {"matrix:\n  tp: [1, two]\n", {":4: tensor_model_parallel_size: found \"two\""}},
      {"matrix:\n  tp:\n    - 1\n    - two\n", {":6: tensor_model_parallel_size: found \"two\""}},
      {"matrix:\n  tp: [[1]]\n", {":4: tp: found a list"}},
      {"matrix: [1]\n", {"matrix: expected a mapping"}},
      {"matrix:\n  tp: [1]\n  tensor_model_parallel_size: [1]\n",
       {":5: tensor_model_parallel_size: found in two"}},
      {"matrix:\n  tp: [1]\n  exclude: [{pp: 2}]\n",
       {"exclude: found pipeline_model_parallel_size, expected a key"}},
      {"matrix:\n  tp: [1]\n  exclude: {tp: 2}\n", {"exclude: expected a list of mappings"}},
      {"matrix:\n  tp: [1]\n  include: [3]\n", {"include: expected a list of mappings"}},
  };
  for (const Case& c : cases) {
    const std::string message = complaint(kBase + std::string(c.text));
    for (const char* fragment : c.fragments) EXPECT_THAT(message, HasSubstr(fragment));
  }
  EXPECT_THAT(complaint("matrix:\n  tp: [1]\n"), HasSubstr("model: missing"));
  std::string large = kBase + std::string("matrix:\n");
  for (const char* key : {"tp", "pp", "dp", "cp"}) {
    large += std::string("  ") + key + ": [1";
    for (int i = 2; i < 40; ++i) large += ", " + std::to_string(i);
    large += "]\n";
  }
  EXPECT_THAT(complaint(large), HasSubstr("more than 100000 cells"));
}

TEST(MatrixConfig, InlineModelsAreNamedByWhatDoesNotFollow) {
  std::string text = "global_batch_size: 8\nmatrix:\n  shape:\n";
  // Heads and layers follow from the hidden size, the vocabulary does not.
  for (const char* sizes : {"n_embd: 32, n_head: 2, n_layer: 2", "n_embd: 64, n_head: 4, n_layer: 3"}) {
    for (const int vocabulary : {100, 200})
      text += "    - {model: {model_type: gpt2, n_positions: 1024, " + std::string(sizes) +
              ", vocab_size: " + std::to_string(vocabulary) + "}}\n";
  }
  std::vector<std::string> names;
  for (const MatrixCell& cell : cells(text)) names.push_back(cell.config.model.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "inline n_embd 32, vocab_size 100", "inline n_embd 32, vocab_size 200",
                       "inline n_embd 64, vocab_size 100", "inline n_embd 64, vocab_size 200"}));
}

TEST(MatrixConfig, InlineModelsOfInvalidCellsAreNamed) {
  const auto found = cells(
      "global_batch_size: 8\nmatrix:\n  tp: [1, 3]\n  model:\n"
      "    - {model_type: gpt2, n_positions: 1024, n_embd: 32, n_head: 2, n_layer: 2, vocab_size: 100}\n"
      "    - {model_type: gpt2, n_positions: 1024, n_embd: 32, n_head: 2, n_layer: 4, vocab_size: 100}\n");
  ASSERT_EQ(found.size(), 4U);
  for (const MatrixCell& cell : found) {
    EXPECT_EQ(cell.invalid.empty(), cell.config.parallel.tensor == 1) << cell.id;
    const std::string layers = std::to_string(cell.config.model.layers);
    EXPECT_EQ(cell.config.model.name, "inline n_layer " + layers);
    for (const auto& [key, value] : cell.values) {
      if (key == "model") {
        EXPECT_EQ(value, "inline n_layer " + layers);
      }
    }
  }
}

}  // namespace
}  // namespace plumbline::matrix_config_test
