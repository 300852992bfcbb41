// The program as a user or a script sees it: exit codes, one clear line on bad input, nothing half-written.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A folder of the test's own, gone at the end; HOME lies there too, so that no calibrated profile is found.
class Cli : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "plumbline-cli-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    write("run.yaml",
          "model: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,\n"
          "        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: "
          "64,\n"
          "        rms_norm_eps: 1.0e-6, tie_word_embeddings: true}\n"
          "seq_length: 16\nglobal_batch_size: 4\nprecision: fp32\nsteps: 2\n");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  Outcome plumbline(const std::string& arguments) const {
    const std::string command = fmt::format("cd {0} && HOME={0} XDG_CACHE_HOME= {1} {2} >out.txt 2>err.txt",
                                            folder_.string(), PLUMBLINE_PROGRAM, arguments);
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read(folder_ / "out.txt"),
            read(folder_ / "err.txt")};
  }

  fs::path folder_;
};

TEST_F(Cli, BadInputIsOneClearLineAndExitCodeTwo) {
  write("broken.yaml", "model: [unclosed\n");
  write("unknown.yaml", "model: qwen2.5-0.5b\ntensor_paralel_size: 2\n");
  write("wrong_type.yaml", "model: qwen2.5-0.5b\nmicro_batch_size: many\n");
  write("negative.json", R"({"model_type": "qwen2", "num_hidden_layers": -3})");
  write("negative.yaml", "model: negative.json\n");
  write("truncated.safetensors", "\x40");
  write("schedule.csv", "0F0,0G0\n");
  fs::create_directory(folder_ / "weights");
  fs::copy(folder_ / "truncated.safetensors", folder_ / "weights/model.safetensors");
  write("file", "in the way");
  struct Case {
    std::string arguments;
    std::vector<std::string> says;
  };
  const std::vector<Case> cases = {
      {"predict missing.yaml", {"missing.yaml"}},
      {"predict broken.yaml", {"broken.yaml"}},
      {"predict unknown.yaml", {"unknown.yaml:2", "tensor_paralel_size"}},
      {"predict wrong_type.yaml", {"wrong_type.yaml:2", "micro_batch_size", "many", "whole number"}},
      {"predict negative.yaml", {"num_hidden_layers", "-3"}},
      {"predict run.yaml --tp 3", {"tensor_model_parallel_size", "found 3"}},
      {"predict run.yaml --gbs 3 --mbs 2", {"global_batch_size", "found 3"}},
      {"predict run.yaml --set nonsense", {"--set nonsense", "key=value"}},
      {"predict run.yaml --set no_such_key=1", {"no_such_key"}},
      {"predict run.yaml --set context_parallel_size=2", {"context_parallel_size", "found 2"}},
      {"predict run.yaml --hardware no-such-card", {"no-such-card"}},
      {"predict run.yaml --hardware h100-sxm-80", {"did you mean h100-sxm-80gb", "calibrate"}},
      {"predict run.yaml --world-size 0", {"world_size", "found \"0\"", "whole number from 1"}},
      {"predict run.yaml --pp 3 --world-size 3", {"pipeline_model_parallel_size", "at most the 2 layers"}},
      {"predict run.yaml --set vocab_parallel=vocab-3", {"vocab_parallel", "vocab-1, vocab-2"}},
      {"predict run.yaml --teacher qwen9", {"qwen9", "qwen2.5-7b"}},
      {"predict run.yaml --teacher qwen2.5-1.5b", {"teacher", "vocabulary of 151936, expected the 128"}},
      {"predict run.yaml --teacher qwen2.5-1.5b --distillation-schedule fast",
       {"distillation_schedule", "abeja"}},
      {"predict run.yaml --set pipeline_schedule=schedule.csv", {"schedule.csv", "0G0"}},
      {"predict", {"CONFIG.yaml", "--parameters"}},
      {"predict run.yaml --parameters 7e9", {"CONFIG.yaml", "--parameters"}},
      {"predict --parameters many", {"--parameters", "many"}},
      {"predict --parameters -1e9", {"--parameters", "-1e9"}},
      {"predict --parameters 7e9 --dp 0", {"data_parallel_size", "found \"0\""}},
      {"predict --parameters 7e9 --tp 2", {"tensor_model_parallel_size"}},
      {"run run.yaml --set backend=cuda", {"backend"}},
      {"run run.yaml --weights weights", {"model.safetensors"}},
      {"run run.yaml --save-gradients no/such/folder/g.safetensors", {"no/such/folder"}},
      {"compare nowhere", {"nowhere"}},
      {"calibrate --out file/profile.json", {"not a writable folder"}},
      {"no-such-command", {}},
      {"", {}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.arguments);
    const Outcome outcome = plumbline(c.arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    for (const std::string& part : c.says) EXPECT_THAT(outcome.err, HasSubstr(part));
    const auto lines = std::count(outcome.err.begin(), outcome.err.end(), '\n');
    EXPECT_TRUE(c.says.empty() || lines <= 3) << outcome.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_FALSE(fs::exists(folder_ / "no"));
}

TEST_F(Cli, AnUnwritableFolderIsFoundBeforeAnythingRuns) {
  write("matrix.yaml", read(folder_ / "run.yaml") + "matrix:\n  micro_batch_size: [1, 2]\n");
  write("file", "in the way");
  const Outcome outcome = plumbline("matrix matrix.yaml --out file/results");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("file/results"));
}

TEST_F(Cli, PredictPrintsARecordAndExitsWithThreeWhenItDoesNotFit) {
  const Outcome fits = plumbline("predict run.yaml --pp 2 --json");
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  const nlohmann::json record = nlohmann::json::parse(fits.out);
  EXPECT_TRUE(record["prediction"]["fits"].get<bool>());
  EXPECT_EQ(record["prediction"]["memory"]["ranks"].size(), 2U);
  EXPECT_EQ(record["config"]["pipeline_model_parallel_size"], 2);
  const Outcome nowhere = plumbline("predict run.yaml --memory-budget 10KiB");
  EXPECT_EQ(nowhere.exit_code, 3);
  EXPECT_THAT(nowhere.err, HasSubstr("does not fit: rank 0 needs"));
  EXPECT_THAT(nowhere.err, HasSubstr("the least found is"));
  const Outcome tight = plumbline("predict run.yaml --world-size 2 --memory-budget 600KiB");
  EXPECT_EQ(tight.exit_code, 3);
  EXPECT_THAT(tight.err, HasSubstr("it would fit with"));
}

// ZeRO's worked example and GLM-130B in fp32, decimal GB.
TEST_F(Cli, PredictPrintsModelStatesOfANumberOfParameters) {
  const Outcome zero = plumbline("predict --parameters 7.5e9 --dp 64 --grad-dtype same");
  EXPECT_EQ(zero.exit_code, 0) << zero.err;
  for (const char* figure : {"120.00", "31.41", "16.64", "1.88"}) EXPECT_THAT(zero.out, HasSubstr(figure));
  EXPECT_THAT(plumbline("predict --parameters 130e9 --precision fp32").out,
              HasSubstr("520 + 520 + 1040 = 2080 GB"));
  const Outcome glm = plumbline("predict --parameters 130e9 --precision fp32 --json");
  const nlohmann::json states = nlohmann::json::parse(glm.out)["formulas"]["model_states"];
  ASSERT_EQ(states.size(), 4U);
  EXPECT_EQ(states[0]["parameters_bytes"], 520e9);
  EXPECT_EQ(states[0]["gradients_bytes"], 520e9);
  EXPECT_EQ(states[0]["optimizer_bytes"], 1040e9);
  EXPECT_EQ(states[0]["total_bytes"], 2080e9);
}

TEST_F(Cli, PredictSetsFormulasBesideExactBytes) {
  EXPECT_THAT(plumbline("predict run.yaml --tp 2 --explain").out,
              HasSubstr("sequence parallel, recompute full"));
  const Outcome outcome = plumbline("predict run.yaml --pp 2 --tp 2 --json");
  const nlohmann::json formulas = nlohmann::json::parse(outcome.out)["formulas"];
  ASSERT_EQ(formulas["model_states"].size(), 2U);
  for (const auto& row : formulas["model_states"]) EXPECT_EQ(row["formula_bytes"], row["exact_bytes"]);
  ASSERT_EQ(formulas["activations_per_layer"].size(), 6U);
  for (const auto& row : formulas["activations_per_layer"])
    EXPECT_EQ(row["formula_bytes"], row["exact_bytes"]);
}

TEST_F(Cli, RunMeasuresWhatWasPredicted) {
  const Outcome outcome = plumbline("run run.yaml --tp 2 --json --trace trace.json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json record = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(record["status"], "ok");
  EXPECT_EQ(record["measurement"]["samples"], 2);
  EXPECT_EQ(record["error"]["peak_memory"], 0.0);
  EXPECT_GT(record["measurement"]["loss"].get<double>(), 3);
  EXPECT_GT(record["measurement"]["time"]["exposed_tensor_s"].get<double>(), 0);
  const std::string trace = read(folder_ / "trace.json");
  EXPECT_TRUE(nlohmann::json::accept(trace));
  EXPECT_THAT(trace, HasSubstr("\"predicted\""));
  EXPECT_THAT(trace, HasSubstr("\"measured\""));
}

TEST_F(Cli, ARankOverItsBudgetIsOutOfMemoryWithItsHolders) {
  const Outcome outcome = plumbline("run run.yaml --pp 2 --memory-budget 660KiB --json");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  const nlohmann::json record = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(record["status"], "oom");
  EXPECT_THAT(record["reason"].get<std::string>(), HasSubstr("largest holders"));
}

TEST_F(Cli, AMatrixRecordsEveryCellAndResumes) {
  write("matrix.yaml", read(folder_ / "run.yaml") +
                           "matrix:\n  tensor_model_parallel_size: [1, 3]\n  precision: [fp32, bf16]\n");
  const Outcome first = plumbline("matrix matrix.yaml --out results --json");
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const nlohmann::json records = nlohmann::json::parse(first.out);
  ASSERT_EQ(records.size(), 4U);
  int ok = 0;
  for (const auto& record : records) {
    const bool divides = record["config"]["tensor_model_parallel_size"] == 1;
    EXPECT_EQ(record["status"], divides ? "ok" : "invalid") << record.dump();
    ok += divides ? 1 : 0;
  }
  EXPECT_EQ(ok, 2);
  const std::string before = read(folder_ / "results/results.jsonl");
  const Outcome second = plumbline("matrix matrix.yaml --out results --json");
  EXPECT_EQ(second.out, first.out);
  EXPECT_EQ(read(folder_ / "results/results.jsonl"), before) << "a finished cell was run again";
  EXPECT_EQ(plumbline("compare results --format csv").exit_code, 0);
}

TEST_F(Cli, DoctorAndHelpAnswer) {
  EXPECT_THAT(plumbline("doctor").out, HasSubstr("oneDNN"));
  const Outcome help = plumbline("run --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--tensor-model-parallel-size"));
}

}  // namespace
}  // namespace plumbline
