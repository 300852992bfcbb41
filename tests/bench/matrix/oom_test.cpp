// `plumbline oom`: contents of a matrix file, the table's verdicts, and the program on cells that do and do
// not fit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "bench/matrix/oom_matrix.hpp"
#include "bench/matrix/oom_table.hpp"
#include "core/base/error.hpp"
#include "core/config_text/matrix_config.hpp"
#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::oom_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kModel =
    "model: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,\n"
    "        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: 64,\n"
    "        rms_norm_eps: 1.0e-6, tie_word_embeddings: true}\n"
    "seq_length: 16\nprecision: fp32\nsteps: 1\nwarmup_steps: 0\n";

class Oom : public ProgramFolder {
 protected:
  int plumbline(const std::string& arguments) const { return ProgramFolder::plumbline(arguments).exit_code; }
};

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

Fit budget_fit(std::int64_t tensors, std::int64_t budget) {
  Fit fit;
  fit.fits = tensors <= budget;
  fit.tensors = fit.needed = {tensors};
  fit.limit = fit.budget = {budget};
  return fit;
}

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
  EXPECT_EQ(matrix.hypotheses[0].settings[0].key, "memory_budget");
}

TEST_F(Oom, BadFilesAreOneClearLine) {
  constexpr std::pair<const char*, const char*> kCases[] = {
      {"published: 3\n", "published: expected source: and cells:"},
      {"published: {source: x, cells: [{gbs: 1}]}\n", "status: missing"},
      {"published: {source: x, cells: [{gbs: 1, status: maybe}]}\n", "found \"maybe\", expected ok or oom"},
      {"published: {source: x, cells: [{bgs: 1, status: ok}]}\n", "unknown key \"bgs\""},
      {"published: {source: x, cells: [7]}\n", "expected a mapping"},
      {"hypotheses: [{name: h}]\n", "found without published"},
      {"published: {source: x, cells: [], assumptions: [{name: a, source: b}]}\n",
       "with name:, source: and without:"},
      {"published: {source: x, cells: [], assumptions: [{name: a, source: b, without: {bgs: 1}}]}\n",
       "unknown key \"bgs\""},
      {"published: {source: x, cells: [], device: {memory: 1GiB}}\n", "device: expected memory:"},
      {"published: {source: x, cells: [], device: {memory: -1, source: y, taken: []}}\n",
       "device: memory: found"},
      {"published: {source: x, cells: [], device: {memory: 1GiB, source: y, taken: [{name: a, from: 2, to: "
       "1, "
       "assumed: 1}]}}\n",
       "expected between from and to, 2 and 1"},
      {"published: {source: x, cells: [], device: {memory: 1GiB, source: y, taken: [{name: a, from: 0, to: "
       "2GiB, "
       "assumed: 0}]}}\n",
       "expected less in all than the 1073741824 bytes"},
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

TEST(OomTable, AKilledCellIsNotOutOfMemory) {
  Record record = record_with(Status::failed, 100, true);
  record.reason = "rank 0 was killed by signal 9 from outside";
  MatrixCell cell;
  cell.id = "cell";
  const OomRow row = row_of(cell, record, budget_fit(100, 120), Status::ok, false);
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
  count_cell(row, Status::ok, budget_fit(100, 150));
  count_cell(row, Status::oom, budget_fit(160, 150));
  EXPECT_TRUE(row.explains());
  EXPECT_EQ(row.fitting->value, 100);
  EXPECT_EQ(row.missing->value, 160);
  count_cell(row, Status::oom, budget_fit(140, 150));
  EXPECT_FALSE(row.explains());
  EXPECT_EQ(row.missing->value, 140);
}

TEST_F(Oom, TheKnifeEdgeIsTheLeastThatWasOutOfMemory) {
  const std::string path =
      write("m.yaml",
            std::string(kModel) +
                "memory_budget: 90B\nmatrix: {global_batch_size: [1, 2, 4]}\n"
                "published:\n  source: a paper\n  cells:\n    - {gbs: 1, status: ok}\n"
                "    - {gbs: [2, 4], status: oom}\n"
                "  assumptions: [{name: large numbers, source: their paper, without: {precision: bf16}}]\n"
                "  device: {memory: 100B, source: a data sheet, taken: [{name: a context, from: 5B, to: 20B, "
                "assumed: 10B}]}\n");
  const OomMatrix matrix = load_oom_matrix(path);
  const std::vector<MatrixCell> cells = load_matrix(path, {});
  std::vector<Record> records;
  std::vector<OomRow> rows;
  for (const std::int64_t peak : {60, 95, 130}) {
    const MatrixCell& cell = cells[rows.size()];
    records.push_back(record_with(Status::oom, peak, peak <= 90));
    records.back().id = cell.id;
    rows.push_back(row_of(cell, records.back(), budget_fit(peak, 90), matrix.published_of(cell), true));
  }
  const PeakOf peak_of = [](const auto& values, const Overrides& settings) -> Bytes {
    EXPECT_EQ(values.front().second, "2");
    EXPECT_EQ(settings.front().key, "precision");
    return {50};
  };
  OomTable table;
  table.rows = rows;
  table.edge = find_knife_edge(rows, records, matrix, peak_of);
  ASSERT_TRUE(table.edge);
  EXPECT_EQ(table.edge->peak.value, 95);
  EXPECT_EQ(table.edge->bytes[Category::teacher].value, 85);
  const std::string text = to_text(table);
  EXPECT_THAT(text, HasSubstr("margin -5 bytes"));
  EXPECT_THAT(text, HasSubstr("without large numbers: -45 bytes, margin +40 (their paper)"));
  EXPECT_THAT(text, HasSubstr("margin -15 to +0 bytes: the outcome depends on these assumptions"));
  const auto json = nlohmann::json::parse(to_json(table))["knife_edge"];
  EXPECT_EQ(json["margin_bytes"], -5);
  EXPECT_EQ(json["without"][0]["margin_bytes"], 40);
  EXPECT_EQ(json["device"]["least_budget_bytes"], 80);
  EXPECT_EQ(json["device"]["most_budget_bytes"], 95);
  EXPECT_NO_THROW(check_device(*matrix.device, {90}));
  EXPECT_THROW(check_device(*matrix.device, {91}), InputError);
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
  EXPECT_THAT(read("out.txt"), HasSubstr("outcome equal in 3 of 3 cells"));
}

/// Contents of a file of /proc, its zero bytes as spaces.
std::string proc_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream read;
  read << in.rdbuf();  // which takes it for the end when the process goes meanwhile; an iterator throws
  std::string text = read.str();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

/// Kills the first process that belongs to a cell in `folder` and that `chosen` takes; waits for it to
/// appear. Arguments of `chosen`: name and environment.
bool kill_one(const fs::path& folder,
              const std::function<bool(const std::string&, const std::string&)>& chosen) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(600);
  while (std::chrono::steady_clock::now() < deadline) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
      const int process = std::atoi(entry.path().filename().c_str());
      if (process <= 0) continue;
      if (proc_text(entry.path() / "cmdline").find(folder.string() + "/") == std::string::npos) continue;
      if (!chosen(proc_text(entry.path() / "comm"), proc_text(entry.path() / "environ"))) continue;
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // into its steps
      return ::kill(process, SIGKILL) == 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

struct Victim {
  const char* name;
  std::function<bool(const std::string&, const std::string&)> chosen;
};

TEST_F(Oom, ACellThatIsKilledHasFailedAndLeavesTheOthersUntouched) {
  const Victim victims[] = {
      {"a rank",
       [](const std::string& name, const std::string& environment) {
         return name.starts_with("plumbline") &&
                environment.find("OMPI_COMM_WORLD_RANK=1 ") != std::string::npos;
       }},
      {"the cell's mpirun",
       [](const std::string& name, const std::string&) { return name.starts_with("mpirun"); }},
  };
  // The second cell does too many steps to wait for; the third runs out of memory.
  write("m.yaml",
        std::string(kModel) + "pp: 2\nglobal_batch_size: 2\ntimeout_s: 600\nmatrix:\n  which:\n" +
            "    - {steps: 1, memory_budget: 64MiB}\n    - {steps: 1000000, memory_budget: 64MiB}\n" +
            "    - {steps: 1, memory_budget: 400KiB}\n    - {steps: 2, memory_budget: 64MiB}\n");
  for (const Victim& victim : victims) {
    SCOPED_TRACE(victim.name);
    const fs::path out = folder_ / "results";
    fs::remove_all(out);
    bool killed = false;
    std::thread killer([&] {
      killed = kill_one(out, [&](const std::string& name, const std::string& environment) {
        // Only the long cell lives for longer than it takes to look at it twice.
        std::error_code none;
        return fs::file_size(out / "results.jsonl", none) > 0 && !none && victim.chosen(name, environment);
      });
    });
    const int code = plumbline("oom m.yaml --json --out results");
    killer.join();
    ASSERT_TRUE(killed);
    EXPECT_EQ(code, 4) << read("err.txt");
    const auto json = nlohmann::json::parse(read("out.txt"));
    ASSERT_EQ(json["cells"].size(), 4U);
    const char* const expected[] = {"ok", "failed", "oom", "ok"};
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(json["cells"][i]["measured"]["status"], expected[i]) << json["cells"][i].dump(1);
    }
    EXPECT_EQ(json["cells"][1]["predicted"]["status"], "ok");
    EXPECT_THAT(json["cells"][1]["reason"].get<std::string>(), HasSubstr("killed by signal 9"));
    EXPECT_EQ(json["agreement"]["measured_cells"], 3);
    EXPECT_EQ(json["agreement"]["same_status"], 3);
  }
}

TEST_F(Oom, WhatCannotRunIsOneClearLine) {
  const auto teacher = [](int layers, int vocabulary) {
    return fmt::format(
        "teacher: {{model_type: qwen2, num_hidden_layers: {}, hidden_size: 32, num_attention_heads: 4,\n"
        "          num_key_value_heads: 2, intermediate_size: 48, vocab_size: {}, max_position_embeddings: "
        "64,\n"
        "          rms_norm_eps: 1.0e-6, tie_word_embeddings: true}}\n",
        layers, vocabulary);
  };
  write("plain.yaml", kModel);
  write("pair.yaml", kModel + teacher(2, 128));
  write("shallow.yaml", kModel + teacher(1, 128));
  write("other.yaml", kModel + teacher(2, 256));
  write("data.bin", std::string(std::size_t{4} * 40, '\0'));
  write("letters.bin", std::string(40, 'x'));
  write("short.bin", std::string(39, '\1'));
  const std::pair<const char*, const char*> cases[] = {
      {"other.yaml", "teacher: inline has a vocabulary of 256, expected the 128"},
      {"shallow.yaml --pp 2", "2 stages, expected at most the 1 layers of the teacher"},
      {"pair.yaml --set distillation_cache_limit=-1",
       "distillation_cache_limit: found \"-1\", expected a whole"},
      {"pair.yaml --set loss_mask=short.bin", "loss_mask: found a path without data"},
      {"pair.yaml --data data.bin --set loss_mask=none.bin", "loss_mask: "},
      {"pair.yaml --data data.bin --set loss_mask=short.bin",
       "39 bytes, expected one for each of the 40 tokens"},
      {"pair.yaml --data data.bin --set loss_mask=letters.bin", "has 120 at byte 0, expected 0 or 1"},
      {"plain.yaml --pp 2 --memory-budget 300KiB", "but rank 1 needs"},
      {"pair.yaml --memory-budget 300KiB", "teacher"},
  };
  for (const auto& [arguments, fragment] : cases) {
    SCOPED_TRACE(arguments);
    const bool budget = std::string(arguments).find("memory-budget") != std::string::npos;
    EXPECT_EQ(plumbline(fmt::format("run {}", arguments)), budget ? 3 : 2);
    const std::string said = read("err.txt");
    const std::string last = said.substr(said.rfind("plumbline: ", said.size()));
    EXPECT_THAT(last, HasSubstr(fragment)) << said;
    EXPECT_EQ(std::count(last.begin(), last.end(), '\n'), 1) << said;
    EXPECT_EQ(read("out.txt"), "");
  }
  // Under a table the same budget is an outcome.
  write("table.yaml",
        std::string(kModel) + "pp: 2\nglobal_batch_size: 2\nmatrix: {memory_budget: [300KiB]}\n");
  ASSERT_EQ(plumbline("oom table.yaml --json"), 0) << read("err.txt");
  EXPECT_EQ(nlohmann::json::parse(read("out.txt"))["cells"][0]["measured"]["status"], "oom");
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
}  // namespace plumbline::oom_test
