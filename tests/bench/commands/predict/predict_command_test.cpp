// The command predict as a script sees it: records, exit codes, and notes on what was taken or guessed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::predict_command_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Predict : public ProgramFolder {
 protected:
  Predict() { write("run.yaml", kSmallRun + std::string("steps: 2\n")); }
};

TEST_F(Predict, NoFileIsNeededWhereThePresetAndOptionsSayIt) {
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

TEST_F(Predict, PackedDocumentsArePredicted) {
  write("lengths.txt", "16\n4\n12\n");
  const Said text = plumbline("predict run.yaml --sequence-lengths lengths.txt");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(
      text.out,
      HasSubstr("3 documents of 11 tokens on average, at most 16, in 2 sequences of 16, 100.0 % full"));
  EXPECT_THAT(text.out, HasSubstr("attention: 81.2 % of whole sequences' pairs of tokens"));
  const nlohmann::json packed =
      json_of("predict run.yaml --cp 2 --sequence-lengths lengths.txt --json")["sequence_lengths"];
  EXPECT_EQ(packed["pairs_of_whole_sequences"], 0.8125);
  EXPECT_EQ(packed["slowest_ranks"], 0.875);
}

TEST_F(Predict, PrintsARecordAndExitsWithThreeWhenItDoesNotFit) {
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
TEST_F(Predict, TheDeviceDecidesWithTheAllocatorsMargin) {
  const std::string question =
      "predict llama-3.1-8b --hardware h100-sxm-80gb --precision bf16 --seq-length 4096";
  const Said outcome = plumbline(question + " --gpus 8 --gbs 8 --zero-stage 1 --json");
  const nlohmann::json device = nlohmann::json::parse(outcome.out)["prediction"]["device_memory"];
  const nlohmann::json& rank = device["ranks"][0];
  const std::int64_t needed =
      rank["total_bytes"].get<std::int64_t>() + rank["allocator_margin_bytes"].get<std::int64_t>();
  EXPECT_GT(rank["allocator_margin_bytes"].get<std::int64_t>(), 0);
  for (const std::int64_t less : {0, 1}) {
    write("card.json", fmt::format(R"({{"name": "card", "like": "h100-sxm-80gb", "constants":)"
                                   R"( {{"memory_bytes": {{"value": {}, "source": "test"}}}}}})",
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
TEST_F(Predict, AGuessSaysSoEverywhere) {
  const Said guess = plumbline("predict run.yaml");
  EXPECT_EQ(guess.exit_code, 0) << guess.err;
  EXPECT_THAT(guess.err, HasSubstr("--hardware: a10-24gb, a100"));
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

TEST_F(Predict, WithoutAGlobalBatchEveryReplicaHasAMicroBatch) {
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

TEST_F(Predict, KeysThatOtherSoftwareIgnoresAreNamed) {
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

/// A lane for each pool, whose phases follow each other; the rollout of the next step is beside training.
TEST_F(Predict, DrawsThePhasesOfAStepOfReinforcementLearning) {
  const std::string step =
      "predict llama-3.1-8b --hardware h100-sxm-80gb --software megatron-core --set task=grpo --gpus 4 --gbs "
      "32 "
      "--set rollout_placement=one_step_off --set rollout_world_size=4 --set num_prompts_per_step=8 "
      "--set num_generations_per_prompt=8 --set rollout_software=vllm --zero-stage 3 ";
  const Said outcome = plumbline(step + "--svg step.svg --trace step.json --json");
  ASSERT_LE(outcome.exit_code, 3) << outcome.err;
  const nlohmann::json json = nlohmann::json::parse(outcome.out);
  std::map<int, std::vector<nlohmann::json>> lanes;
  const nlohmann::json events = nlohmann::json::parse(read("step.json"))["traceEvents"];
  for (const nlohmann::json& event : events)
    if (event["ph"] == "X") lanes[event["tid"]].push_back(event);
  ASSERT_EQ(lanes.size(), 2U);
  double last = 0;
  for (const auto& [lane, phases] : lanes) {
    double end = 0;
    for (const nlohmann::json& phase : phases) {
      EXPECT_NEAR(phase["ts"].get<double>(), end, 1e-3) << phase;
      end = phase["ts"].get<double>() + phase["dur"].get<double>();
    }
    last = std::max(last, end);
  }
  EXPECT_NEAR(last, json["step_s"].get<double>() * 1e6, 1);
  EXPECT_EQ(lanes[1].back()["name"], "rollout of the next step");
  const std::string picture = read("step.svg");
  EXPECT_THAT(picture, HasSubstr("rollout of the next step"));
  EXPECT_THAT(picture, HasSubstr("</svg>"));
  EXPECT_EQ(plumbline(step + "--svg no/step.svg").exit_code, 4);
  const Said protobuf = plumbline(step + "--trace step.pftrace");
  EXPECT_EQ(protobuf.exit_code, 2);
  EXPECT_THAT(protobuf.err, HasSubstr("expected a name that ends in .json"));
}

// ZeRO's worked example and GLM-130B in fp32, decimal GB.
TEST_F(Predict, PrintsModelStatesOfANumberOfParameters) {
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

TEST_F(Predict, SetsFormulasBesideExactBytes) {
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

}  // namespace
}  // namespace plumbline::predict_command_test
