// `plumbline oom`: what a matrix file may say, the table's verdicts, and the program on cells that do and do
// not fit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/oom/oom_matrix.hpp"
#include "bench/oom/oom_table.hpp"
#include "core/error.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kModel =
    "model: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,\n"
    "        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: 64,\n"
    "        rms_norm_eps: 1.0e-6, tie_word_embeddings: true}\n"
    "seq_length: 16\nprecision: fp32\nsteps: 1\nwarmup_steps: 0\n";

class Oom : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "plumbline-oom-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int plumbline(const std::string& arguments) const {
    const std::string command = fmt::format("cd {0} && HOME={0} XDG_CACHE_HOME= {1} {2} >out.txt 2>err.txt",
                                            folder_.string(), PLUMBLINE_PROGRAM, arguments);
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  fs::path folder_;
};

TEST_F(Oom, PublishedOutcomesAndHypothesesAreRead) {
  const std::string path =
      write("m.yaml", std::string(kModel) +
                          "matrix: {global_batch_size: [1, 2, 4]}\n"
                          "published:\n  source: a paper\n  cells:\n"
                          "    - {gbs: [1, 2], status: ok}\n    - {global_batch_size: 4, status: oom}\n"
                          "hypotheses:\n  - {name: small card, memory_budget: 1MiB}\n");
  const OomMatrix matrix = load_oom_matrix(path);
  EXPECT_EQ(matrix.source, "a paper");
  const std::vector<MatrixCell> cells = load_matrix(path, {});
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(matrix.published_of(cells[0]), Status::ok);
  EXPECT_EQ(matrix.published_of(cells[1]), Status::ok);
  EXPECT_EQ(matrix.published_of(cells[2]), Status::oom);
  ASSERT_EQ(matrix.hypotheses.size(), 1u);
  EXPECT_EQ(matrix.hypotheses[0].name, "small card");
  ASSERT_EQ(matrix.hypotheses[0].settings.size(), 1u);
  EXPECT_EQ(matrix.hypotheses[0].settings[0].first, "memory_budget");
}

TEST_F(Oom, BadFilesAreOneClearLine) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"published: 3\n", "published: expected source: and cells:"},
      {"published: {source: x, cells: [{gbs: 1}]}\n", "status: missing"},
      {"published: {source: x, cells: [{gbs: 1, status: maybe}]}\n", "found \"maybe\", expected ok or oom"},
      {"published: {source: x, cells: [{bgs: 1, status: ok}]}\n", "unknown key \"bgs\""},
      {"published: {source: x, cells: [7]}\n", "expected a mapping"},
      {"hypotheses: [{name: h}]\n", "found without published"},
      {"published: {source: x, cells: []}\nhypotheses: [{gbs: 1}]\n", "expected a mapping with name:"},
  };
  for (const auto& [text, fragment] : kCases) {
    const std::string path = write("bad.yaml", kModel + std::string(text));
    try {
      load_oom_matrix(path);
      ADD_FAILURE() << text;
    } catch (const InputError& error) {
      const std::string line = error.what();
      EXPECT_THAT(line, HasSubstr(fragment));
      EXPECT_THAT(line, HasSubstr("bad.yaml:"));
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
  }
}

Record record_with(Status status, std::int64_t predicted_peak, bool fits) {
  Record record;
  record.status = status;
  record.prediction.emplace();
  record.prediction->fits = fits;
  RankMemoryReport rank;
  rank.bytes[Category::teacher] = {predicted_peak - 10};
  rank.bytes[Category::optimizer] = {10};
  record.prediction->memory = MemoryReport::of({rank});
  return record;
}

TEST(OomTable, AKilledCellIsNotOutOfMemory) {
  Record record = record_with(Status::failed, 100, true);
  record.reason = "rank 0 was killed by signal 9 from outside";
  MatrixCell cell;
  cell.id = "cell";
  const OomRow row = row_of(cell, record, {120}, Status::ok, false);
  ASSERT_TRUE(row.measured);
  EXPECT_EQ(row.measured->status, Status::failed);
  EXPECT_EQ(row.predicted->category, Category::teacher);
  EXPECT_EQ(agreement_of({row}).measured, 0);
  OomTable table;
  table.rows = {row};
  EXPECT_THAT(to_text(table), HasSubstr("failed"));
  EXPECT_THAT(to_text(table), HasSubstr("killed by signal 9"));
  EXPECT_EQ(nlohmann::json::parse(to_json(table))["cells"][0]["measured"]["status"], "failed");
  EXPECT_EQ(nlohmann::json::parse(to_json(table))["cells"][0]["predicted"]["margin_bytes"], 20);
}

TEST(OomTable, HypothesesAreCountedAndBounded) {
  HypothesisRow row;
  count_cell(row, Status::ok, {100}, {150});
  count_cell(row, Status::oom, {160}, {150});
  EXPECT_TRUE(row.explains());
  EXPECT_EQ(row.fitting->value, 100);
  EXPECT_EQ(row.missing->value, 160);
  count_cell(row, Status::oom, {140}, {150});
  EXPECT_FALSE(row.explains());
  EXPECT_EQ(row.missing->value, 140);
}

TEST_F(Oom, ACellThatDoesNotFitLeavesTheOthersUntouched) {
  write("m.yaml", std::string(kModel) + "matrix: {memory_budget: [64MiB, 100KiB, 32MiB]}\n" +
                      "published: {source: nobody, cells: [{memory_budget: 100KiB, status: oom}]}\n");
  ASSERT_EQ(plumbline("oom m.yaml --json"), 0) << read("err.txt");
  const auto json = nlohmann::json::parse(read("out.txt"));
  ASSERT_EQ(json["cells"].size(), 3u);
  const char* const expected[] = {"ok", "oom", "ok"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(json["cells"][i]["predicted"]["status"], expected[i]);
    EXPECT_EQ(json["cells"][i]["measured"]["status"], expected[i]);
  }
  EXPECT_EQ(json["cells"][0]["measured"]["peak_bytes"], json["cells"][0]["predicted"]["peak_bytes"]);
  EXPECT_EQ(json["agreement"]["same_status"], 3);
  EXPECT_EQ(json["agreement"]["same_peak"], 2);
  EXPECT_EQ(json["agreement"]["same_as_published"], 1);
  ASSERT_EQ(plumbline("oom m.yaml"), 0) << read("err.txt");  // resumes: nothing is run again
  EXPECT_THAT(read("out.txt"), HasSubstr("same outcome in 3 of 3 cells"));
}

TEST_F(Oom, TheProgramSaysWhatIsWrongInOneLine) {
  write("bad.yaml", std::string(kModel) + "published: 3\n");
  EXPECT_EQ(plumbline("oom bad.yaml"), 2);
  const std::string line = read("err.txt");
  EXPECT_THAT(line, HasSubstr("bad.yaml:"));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(read("out.txt"), "");
}

}  // namespace
}  // namespace plumbline
