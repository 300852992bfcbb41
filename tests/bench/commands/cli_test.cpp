// The program as a user or a script sees it: exit codes, one clear line on bad input, nothing half-written.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Cli : public ProgramFolder {
 protected:
  Cli() {
    write("run.yaml",
          "model: {model_type: qwen2, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 4,\n"
          "        num_key_value_heads: 2, intermediate_size: 96, vocab_size: 128, max_position_embeddings: "
          "64,\n"
          "        rms_norm_eps: 1.0e-6, tie_word_embeddings: true}\n"
          "seq_length: 16\nglobal_batch_size: 4\nprecision: fp32\nsteps: 2\n");
  }
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
      {"run run.yaml --trace no/such/folder/t.json", {"--trace", "expected a writable folder"}},
      {"run run.yaml --save-weights no/such/folder", {"save_weights", "expected a writable folder"}},
      {"run run.yaml --trace \"$(printf %0300d 1)\"", {"--trace", "cannot be written"}},
      {"run run.yaml --save-weights \"$(printf %0300d 1)\"", {"save_weights", "cannot be written"}},
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
      {"run run.yaml --save-gradients no/such/folder/g.safetensors", {"no/such/folder"}},
      {"compare nowhere", {"nowhere"}},
      {"calibrate --out file/profile.json", {"expected a writable folder"}},
      {"no-such-command", {"unknown command \"no-such-command\"; `plumbline help` lists all"}},
      {"predict run.yaml --fsdp", {"unknown option --fsdp; `plumbline help predict` lists all"}},
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
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("file/results"));
}

TEST_F(Cli, NoFileIsNeededWhereThePresetAndOptionsSayIt) {
  const Said outcome = plumbline("predict --model llama-3.1-8b --tp 4 --hardware h100-sxm-80gb --json");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(nlohmann::json::parse(outcome.out)["config"]["world_size"], 4);
  EXPECT_EQ(plumbline("predict llama-3.1-8b --tp 4 --hardware h100-sxm-80gb --json").out, outcome.out);
  EXPECT_EQ(plumbline("predict llama-3.1-8b --gpus 4 --tp 4 --hardware h100-sxm-80gb --json").out,
            outcome.out);
  const Said cell = plumbline("matrix gpt2-124m --predict-only --seq-length 64 --quiet --json");
  EXPECT_EQ(cell.exit_code, 0) << cell.err;
  EXPECT_EQ(nlohmann::json::parse(cell.out).size(), 1U);
  EXPECT_TRUE(fs::exists(folder_ / "gpt2-124m-results/predictions.jsonl"));
  EXPECT_EQ(plumbline("oom --model qwen2.5-0.5b --predict-only --seq-length 64 --quiet").exit_code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "plumbline-results"));
}

TEST_F(Cli, PackedDocumentsArePredicted) {
  write("lengths.txt", "16\n4\n12\n");
  const Said text = plumbline("predict run.yaml --sequence-lengths lengths.txt");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(
      text.out,
      HasSubstr("3 documents of 11 tokens on average, at most 16, in 2 sequences of 16, 100.0 % full"));
  EXPECT_THAT(text.out, HasSubstr("attention: 81.2 % of whole sequences' pairs of tokens"));
  const Said json = plumbline("predict run.yaml --cp 2 --sequence-lengths lengths.txt --json");
  EXPECT_EQ(json.exit_code, 0) << json.err;
  const nlohmann::json packed = nlohmann::json::parse(json.out)["sequence_lengths"];
  EXPECT_EQ(packed["pairs_of_whole_sequences"], 0.8125);
  EXPECT_EQ(packed["slowest_ranks"], 0.875);
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

TEST_F(Cli, PredictPrintsARecordAndExitsWithThreeWhenItDoesNotFit) {
  const Said fits = plumbline("predict run.yaml --pp 2 --json");
  EXPECT_EQ(fits.exit_code, 0) << fits.err;
  const nlohmann::json record = nlohmann::json::parse(fits.out);
  EXPECT_TRUE(record["prediction"]["fits"].get<bool>());
  EXPECT_EQ(record["prediction"]["memory"]["ranks"].size(), 2U);
  EXPECT_EQ(record["config"]["pipeline_model_parallel_size"], 2);
  const Said nowhere = plumbline("predict run.yaml --memory-budget 10KiB");
  EXPECT_EQ(nowhere.exit_code, 3);
  EXPECT_THAT(nowhere.err, HasSubstr("does not fit: rank 0 needs"));
  EXPECT_THAT(nowhere.err, HasSubstr("the least found is"));
  const Said tight = plumbline("predict run.yaml --world-size 2 --memory-budget 600KiB");
  EXPECT_EQ(tight.exit_code, 3);
  EXPECT_THAT(tight.err, HasSubstr("it would fit with"));
}

// Device memory and the allocator's margin decide, whatever the backend; both are shown.
TEST_F(Cli, TheDeviceDecidesWithTheAllocatorsMargin) {
  const std::string question =
      "predict llama-3.1-8b --hardware h100-sxm-80gb --precision bf16 --seq-length 4096";
  const Said outcome = plumbline(question + " --gpus 8 --gbs 8 --zero-stage 1 --json");
  const nlohmann::json device = nlohmann::json::parse(outcome.out)["prediction"]["device_memory"];
  const nlohmann::json& rank = device["ranks"][0];
  const std::int64_t needed =
      rank["total_bytes"].get<std::int64_t>() + rank["allocator_margin_bytes"].get<std::int64_t>();
  EXPECT_GT(rank["allocator_margin_bytes"].get<std::int64_t>(), 0);
  for (const std::int64_t less : {0, 1}) {
    write(
        "card.json",
        fmt::format(
            R"({{"name": "card", "like": "h100-sxm-80gb", "constants": {{"memory_bytes": {{"value": {}, "source": "test"}}}}}})",
            needed - less));
    const Said said = plumbline(
        "predict llama-3.1-8b --hardware card.json --precision bf16 --seq-length 4096 --gpus 8 --gbs 8 "
        "--zero-stage 1");
    EXPECT_EQ(said.exit_code, less == 0 ? 0 : 3) << said.err;
    for (const char* part : {"device memory, rank 0", "allocator margin", "device capacity: "})
      EXPECT_THAT(said.out, HasSubstr(part));
    if (less == 0) continue;
    EXPECT_THAT(said.out, HasSubstr("predicted not to fit: "));
    EXPECT_THAT(said.err, HasSubstr("of device memory, the allocator's margin included"));
  }
}

// Without calibration and accelerator every time is a guess, and says so; accelerators are offered.
TEST_F(Cli, AGuessSaysSoEverywhere) {
  const Said guess = plumbline("predict run.yaml");
  EXPECT_EQ(guess.exit_code, 0) << guess.err;
  EXPECT_THAT(guess.err, HasSubstr("--hardware: a100"));
  EXPECT_EQ(guess.out.find("calibrated, "), std::string::npos) << guess.out;
  EXPECT_THAT(guess.out, HasSubstr("time: guess"));
  for (const char* figure : {"\nstep time ", "\ntokens/s ", "\nMFU "}) {
    const std::size_t begin = guess.out.find(figure);
    ASSERT_NE(begin, std::string::npos) << figure;
    const std::string line = guess.out.substr(begin + 1, guess.out.find('\n', begin + 1) - begin - 1);
    EXPECT_THAT(line, HasSubstr("guess"));
  }
  const nlohmann::json json = nlohmann::json::parse(plumbline("predict run.yaml --json").out);
  EXPECT_EQ(json["trust"]["time"], "guess");
  EXPECT_TRUE(json["prediction"]["times_guessed"].get<bool>());
  const Said preset = plumbline("predict run.yaml --hardware h100-sxm-80gb");
  EXPECT_EQ(preset.out.find("guess"), std::string::npos) << preset.out;
}

TEST_F(Cli, WithoutAGlobalBatchEveryReplicaHasAMicroBatch) {
  struct Case {
    const char* options;
    const char* note;
    int batch;
  };
  constexpr Case kCases[] = {
      {"--gpus 64", "64 is taken, micro_batch_size x data parallel size = 1 x 64", 64},
      {"--gpus 64 --tp 2 --mbs 4", "128 is taken, micro_batch_size x data parallel size = 4 x 32", 128},
      {"--dp 3", "3 is taken", 3},
      {"--gpus 2 --tp 2", "", 1},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.options);
    const Said said =
        plumbline(std::string("predict gpt2-124m --hardware h100-sxm-80gb --json ") + c.options);
    EXPECT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(nlohmann::json::parse(said.out)["config"]["global_batch_size"], c.batch);
    EXPECT_THAT(said.err, HasSubstr(c.note));
    EXPECT_EQ(said.err.find("global_batch_size is not given") != std::string::npos, *c.note != '\0');
  }
  const Said given = plumbline("predict gpt2-124m --hardware h100-sxm-80gb --gpus 64 --gbs 1");
  EXPECT_EQ(given.exit_code, 2);
  EXPECT_THAT(given.err, HasSubstr("global_batch_size: found 1"));
}

TEST_F(Cli, KeysThatOtherSoftwareIgnoresAreNamed) {
  const std::string question = "predict gpt2-124m --hardware h100-sxm-80gb --gpus 8 ";
  EXPECT_THAT(
      plumbline(question + "--software torchtitan --zero-stage 1").err,
      HasSubstr("note: zero_stage: found 1, without effect with software torchtitan (sharded: FSDP2"));
  EXPECT_EQ(plumbline(question + "--zero-stage 1").err.find("without effect"), std::string::npos);
  EXPECT_THAT(plumbline("help zero_stage").out, HasSubstr("FSDP2"));
  for (const char* option : {"precision fp32", "optimizer sgd"}) {
    const Said refused = plumbline(question + "--software megatron-core --" + option);
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.err, HasSubstr("with software megatron-core, whose"));
  }
}

// ZeRO's worked example and GLM-130B in fp32, decimal GB.
TEST_F(Cli, PredictPrintsModelStatesOfANumberOfParameters) {
  const Said zero = plumbline("predict --parameters 7.5e9 --dp 64 --grad-dtype same");
  EXPECT_EQ(zero.exit_code, 0) << zero.err;
  for (const char* figure : {"120.00", "31.41", "16.64", "1.88"}) EXPECT_THAT(zero.out, HasSubstr(figure));
  EXPECT_THAT(plumbline("predict --parameters 130e9 --precision fp32").out,
              HasSubstr("520 + 520 + 1040 = 2080 GB"));
  const Said glm = plumbline("predict --parameters 130e9 --precision fp32 --json");
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
  const Said outcome = plumbline("predict run.yaml --pp 2 --tp 2 --json");
  const nlohmann::json formulas = nlohmann::json::parse(outcome.out)["formulas"];
  ASSERT_EQ(formulas["model_states"].size(), 2U);
  for (const auto& row : formulas["model_states"]) EXPECT_EQ(row["formula_bytes"], row["exact_bytes"]);
  ASSERT_EQ(formulas["activations_per_layer"].size(), 6U);
  for (const auto& row : formulas["activations_per_layer"])
    EXPECT_EQ(row["formula_bytes"], row["exact_bytes"]);
}

TEST_F(Cli, RunMeasuresWhatWasPredicted) {
  const Said outcome = plumbline("run run.yaml --tp 2 --json --trace trace.json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const nlohmann::json record = nlohmann::json::parse(outcome.out);
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
}  // namespace plumbline
