// The program as a user or a script sees it: exit codes, one clear line on bad input, nothing half-written.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::cli_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Cli : public ProgramFolder {
 protected:
  Cli() { write("run.yaml", kSmallRun + std::string("steps: 2\n")); }
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
  write("lengths.txt", "8\nmany\n");
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
      {"predict run.yaml --set nonsense", {"--set: found nonsense", "key=value"}},
      {"predict run.yaml --set no_such_key=1", {"no_such_key"}},
      {"predict run.yaml --set context_parallel_size=4 --set cp_comm_type=a2a",
       {"cp_comm_type: found a2a", "context_parallel_size 4", "key/value heads per tensor rank"}},
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
      {"predict", {"CONFIG", "--model", "--parameters"}},
      {"predict run.yaml --parameters 7e9", {"both CONFIG and --parameters"}},
      {"predict run.yaml --tp x", {"--tp: tensor_model_parallel_size: found \"x\""}},
      {"predict run.yaml --gpus 0", {"--gpus: world_size: found \"0\""}},
      {"predict run.yaml --memory-budget 0.4", {"--memory-budget", "0.4", "2GiB"}},
      {"run run.yaml --memory-budget 0.4", {"--memory-budget", "0.4"}},
      {"run run.yaml --teacher-weights weights", {"--teacher-weights", "without a teacher"}},
      {"run run.yaml --distillation-temperature 2", {"--distillation-temperature", "without a teacher"}},
      {"run run.yaml --data none.npy", {"none.npy"}},
      {"run run.yaml --weights nowhere", {"nowhere"}},
      {"predict llama-3.1-8", {"no such file, folder or preset", "did you mean llama-3.1-8b"}},
      {"predict run.yaml --set \"$(printf 'x\\033[2J%0100000d' 1)\"",
       {"--set: found x?[2J000", "..., expected key=value"}},
      {"predict run.yaml --tp \"$(printf '\\033[2J%0100000d' 1)\"",
       {"--tp", "found \"?[2J000", "whole number"}},
      {"predict --parameters many", {"--parameters", "many"}},
      {"predict --parameters -1e9", {"--parameters", "-1e9"}},
      {"predict --parameters 7e9 --dp 0", {"data_parallel_size", "found \"0\""}},
      {"predict --parameters 7e9 --tp 2", {"tensor_model_parallel_size"}},
      {"run run.yaml --set backend=cuda", {"backend"}},
      {"run run.yaml --weights weights", {"model.safetensors"}},
      {"compare nowhere", {"nowhere"}},
      {"no-such-command", {"unknown command \"no-such-command\"; `plumbline help` lists all"}},
      {"predict run.yaml --fsdp", {"unknown option --fsdp, did you mean --fsdp-double-buffer?"}},
      {"help foo", {"or a glossary term"}},
      {"predcit run.yaml", {"did you mean predict?"}},
      {"--quiet predcit run.yaml", {"did you mean predict?"}},
      {"predict run.yaml --sequence-paralel true",
       {"unknown option --sequence-paralel", "--sequence-parallel?"}},
      {"predict run.yaml --sequence-lengths lengths.txt",
       {"lengths.txt:2: found \"many\", expected the tokens"}},
      {"predict run.yaml --sequence-lengths run.yaml --what-limits",
       {"--sequence-lengths with --what-limits"}},
      {"run run.yaml --sequence-lengths lengths.txt", {"run: unknown option --sequence-lengths"}},
      {"predict run.yaml --jsn", {"predict: unknown option --jsn, did you mean --json?"}},
      {"predict run.yaml more.yaml", {"one argument more", "more.yaml"}},
      {"schedule 1f1b --pp many", {"schedule: ", "--pp", "plumbline help schedule"}},
      {"schedule 1f1b --pp 2 --microbatches 2 --compare nosuch", {"nosuch", "expected one such as"}},
      {"schedule 1f1b --pp 2 --microbatches 2 --compare nosuch.csv", {"nosuch.csv"}},
      {"schedule", {"--list"}},
      {"compare", {"compare: ", "plumbline help compare"}},
      {"compare run.yaml --format tabel", {"--format"}},
      {"help zero_stge", {"did you mean zero_stage?"}},
      {"", {"expected one", "plumbline help"}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.arguments);
    const Said outcome = plumbline(c.arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    for (const std::string& part : c.says) EXPECT_THAT(outcome.err, HasSubstr(part));
    const auto lines = std::count(outcome.err.begin(), outcome.err.end(), '\n');
    EXPECT_EQ(lines, 1) << outcome.err;
    EXPECT_LT(outcome.err.size(), 2100U);
    EXPECT_EQ(outcome.err.find('\033'), std::string::npos) << outcome.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  EXPECT_FALSE(fs::exists(folder_ / "no"));
}

TEST_F(Cli, AnUnwritableFolderIsFoundBeforeAnythingRuns) {
  write("matrix.yaml", read("run.yaml") + "matrix:\n  micro_batch_size: [1, 2]\n");
  write("file", "in the way");
  const Said outcome = plumbline("matrix matrix.yaml --out file/results");
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.err, HasSubstr("file/results"));
}

TEST_F(Cli, SavedWeightsAreACheckpoint) {
  const Said saved = plumbline("run run.yaml --save-weights saved --save-gradients g.safetensors --json");
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  const nlohmann::json config = nlohmann::json::parse(read("saved/config.json"));
  EXPECT_EQ(config["architectures"], nlohmann::json::array({"Qwen2ForCausalLM"}));
  EXPECT_EQ(config["vocab_size"], 128);
  const std::string tensors = read("saved/model.safetensors");
  EXPECT_THAT(tensors,
              HasSubstr(R"("__metadata__":{"format":"pt"})"));  // transformers refuses a file without
  // The folder is a configuration and its weights.
  const Said again = plumbline("run saved --weights saved --seq-length 16 --precision fp32 --json");
  EXPECT_EQ(again.exit_code, 0) << again.err;
}

TEST_F(Cli, HelpKnowsEveryKey) {
  const Said key = plumbline("help optimizer");
  EXPECT_EQ(key.exit_code, 0) << key.err;
  for (const char* words :
       {"betas 0.9 and 0.95", "epsilon 1e-8", "Values: one of adam, sgd", "Default: adam"})
    EXPECT_THAT(key.out, HasSubstr(words));
  EXPECT_THAT(plumbline("help weight_decay").out, HasSubstr("biases do not"));
  EXPECT_THAT(plumbline("help zero-stage").out, HasSubstr("Default: 0"));
  EXPECT_THAT(plumbline("help save_gradients").out, HasSubstr("before clipping"));
  const Said alias = plumbline("help tp");
  EXPECT_THAT(alias.out, HasSubstr("tensor_model_parallel_size"));
  EXPECT_THAT(alias.out, HasSubstr("tensor parallelism"));  // the glossary's term of the same name
  const Said list = plumbline("schedule --list");
  for (const char* name : {"\n1f1b ", "\nzb-v ", "\nbubble-fill "}) EXPECT_THAT(list.out, HasSubstr(name));
}

TEST_F(Cli, ARunThatCannotFitEndsWithThreeBeforeItStarts) {
  const Said outcome = plumbline("run run.yaml --memory-budget 10KiB");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("before its first micro-batch"));
}

TEST_F(Cli, RunMeasuresWhatWasPredicted) {
  const nlohmann::json record = json_of("run run.yaml --tp 2 --json --trace trace.json");
  EXPECT_EQ(record["status"], "ok");
  EXPECT_EQ(record["measurement"]["samples"], 2);
  EXPECT_EQ(record["error"]["peak_memory"], 0.0);
  EXPECT_GT(record["measurement"]["loss"].get<double>(), 3);
  EXPECT_GT(record["measurement"]["time"]["exposed_tensor_s"].get<double>(), 0);
  const std::string trace = read("trace.json");
  EXPECT_TRUE(nlohmann::json::accept(trace));
  EXPECT_THAT(trace, HasSubstr("\"predicted\""));
  EXPECT_THAT(trace, HasSubstr("\"measured\""));
}

TEST_F(Cli, ARankOverItsBudgetIsOutOfMemoryWithItsHolders) {
  const Said outcome = plumbline("run run.yaml --pp 2 --memory-budget 660KiB --json");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  const nlohmann::json record = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(record["status"], "oom");
  EXPECT_THAT(record["reason"].get<std::string>(), HasSubstr("largest holders"));
}

TEST_F(Cli, AMatrixRecordsEveryCellAndResumes) {
  write("matrix.yaml",
        read("run.yaml") + "matrix:\n  tensor_model_parallel_size: [1, 3]\n  precision: [fp32, bf16]\n");
  const Said first = plumbline("matrix matrix.yaml --out results --json");
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
  const std::string before = read("results/results.jsonl");
  const Said second = plumbline("matrix matrix.yaml --out results --json");
  EXPECT_EQ(second.out, first.out);
  EXPECT_EQ(read("results/results.jsonl"), before) << "a finished cell was run again";
  EXPECT_EQ(plumbline("compare results --format csv").exit_code, 0);
}

TEST_F(Cli, BeforeItStartsAMatrixSaysHowLongItTakesAndAtWhichSize) {
  write("matrix.yaml", read("run.yaml") +
                           "matrix:\n  cell: [{tp: 1}, {tp: 1, memory_budget: 50%}]\n"
                           "fit: {seconds: 1000, sizes: [{steps: 1}, {steps: 2}]}\n");
  const Said first = plumbline("matrix matrix.yaml --out results --json");
  EXPECT_EQ(first.exit_code, 0);
  EXPECT_THAT(first.err, HasSubstr(" for 2 cells: size 2 of 2 (steps 2), the largest within 16 min 40 s\n"));
  const auto records = nlohmann::json::parse(first.out);
  EXPECT_EQ(records[0]["status"], "ok");
  EXPECT_EQ(records[0]["config"]["steps"], 2);
  EXPECT_EQ(records[0]["config"]["timeout_s"], "auto");
  EXPECT_EQ(records[1]["status"], "oom") << records[1]["reason"];
  const Said again = plumbline("matrix matrix.yaml --out results --json");
  EXPECT_EQ(again.out, first.out);
  EXPECT_THAT(again.err, AllOf(HasSubstr("size 2 of 2"), HasSubstr("results/fit.json")));
}

TEST_F(Cli, RunSaysWhereBf16HasNoHardware) {
  const std::string narrow = "export ONEDNN_MAX_CPU_ISA=AVX2;";
  const std::string words = "bf16 products run through fp32 here";
  EXPECT_THAT(plumbline("run run.yaml --precision bf16", narrow).err, HasSubstr("note: " + words));
  EXPECT_THAT(plumbline("run run.yaml --precision fp32", narrow).err, Not(HasSubstr(words)));
}

/// Output of bench/run.sh for Ninja's lines without a terminal.
TEST_F(Cli, ABuildShowsItsProgressAndWhatCompilersSay) {
  write("lines",
        "[1/3] Building a.o\n[2/3] Building b.o\nFAILED: b.o\nb.cpp:1: error: no\n"
        "[3/3] Linking\nninja: no work to do.\n");
  const auto shown = [&](const char* before) {
    const std::string command = fmt::format(
        "cd {} && bash -c 'set -euo pipefail; source {}/bench/setup.sh; {} plumbline_build_progress' "
        "<lines 2>err.txt",
        folder_.string(), PLUMBLINE_SOURCE_DIR, before);
    EXPECT_EQ(std::system(command.c_str()), 0);
    return read("err.txt");
  };
  EXPECT_EQ(shown(""), "FAILED: b.o\nb.cpp:1: error: no\n");
  EXPECT_EQ(
      shown("plumbline_seconds_between=0"),
      "building: 1 of 3, about 0 s left\nbuilding: 2 of 3, about 0 s left\nFAILED: b.o\nb.cpp:1: error: no\n"
      "building: 3 of 3, about 0 s left\n");
}

TEST_F(Cli, DoctorAndHelpAnswer) {
  const std::string doctor = plumbline("doctor").out;
  EXPECT_THAT(doctor, HasSubstr("oneDNN"));
  EXPECT_THAT(doctor, testing::ContainsRegex("memory +[0-9]+[.][0-9]{2} GiB total, "));
  const Said help = plumbline("run --help-all");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("--tensor-model-parallel-size"));
}

}  // namespace
}  // namespace plumbline::cli_test
