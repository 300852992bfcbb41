// predict --vary, --diff and --patch: each row is the prediction of its configuration alone.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::predict_vary_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* kLlama =
    "predict llama-3.1-8b --software megatron-core --hardware h100-sxm-80gb --gpus 8 --gbs 32 --precision "
    "bf16 "
    "--seq-length 4096 --zero-stage 1 ";
constexpr const char* kParts[] = {"compute_s",      "exposed_tensor_s",  "exposed_pipeline_s",
                                  "exposed_data_s", "exposed_offload_s", "optimizer_s"};

class PredictVary : public ProgramFolder {
 protected:
  PredictVary() { write("run.yaml", kSmallRun + std::string("hardware: h100-sxm-80gb\nworld_size: 4\n")); }
};

TEST_F(PredictVary, EveryRowIsThePredictionOfItsConfiguration) {
  const json all = json_of("predict run.yaml --vary tp=1,2 --vary recompute_granularity=none,full --json");
  ASSERT_EQ(all["runs"].size(), 5U);
  EXPECT_EQ(all["keys"], json({"tensor_model_parallel_size", "recompute_granularity"}));
  EXPECT_EQ(all["runs"][0]["settings"], json::object());
  const json& base = all["runs"][0];
  double fastest = INFINITY;
  for (std::size_t i = 0; i < 5; ++i) {
    const json& row = all["runs"][i];
    std::string options;
    for (const auto& [key, value] : row["settings"].items())
      options += fmt::format(" --set {}={}", key, value.get<std::string>());
    const json alone = json_of("predict run.yaml --json" + options)["prediction"];
    EXPECT_EQ(row["time"]["step_s"], alone["time"]["step_s"]) << options;
    EXPECT_EQ(row["peak_bytes"], alone["memory"]["peak_bytes"]) << options;
    EXPECT_EQ(row["verdict"], alone["verdict"]) << options;
    fastest = std::min(fastest, row["time"]["step_s"].get<double>());
    if (i == 0) continue;
    EXPECT_DOUBLE_EQ(row["difference"]["step_s"].get<double>(),
                     row["time"]["step_s"].get<double>() - base["time"]["step_s"].get<double>());
    double parts = 0;
    for (const char* part : kParts) parts += row["difference"][part].get<double>();
    EXPECT_NEAR(parts, row["difference"]["step_s"].get<double>(), 1e-9);
  }
  EXPECT_EQ(all["runs"][all["fastest"].get<std::size_t>()]["time"]["step_s"], fastest);
  EXPECT_EQ(all["runs"][4]["settings"],
            json({{"recompute_granularity", "full"}, {"tensor_model_parallel_size", "2"}}));
}

TEST_F(PredictVary, ARefusedRowIsOneLineOfTheTable) {
  const Said said = plumbline("predict run.yaml --vary tp=2,3");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("\n#2 refused: "));
  EXPECT_THAT(said.out, HasSubstr("fastest that fits: "));
  EXPECT_EQ(said.err, "");
  const Said none = plumbline("predict run.yaml --tp 3 --vary pp=2");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.out, HasSubstr("base refused: "));
  EXPECT_THAT(none.out, HasSubstr("\n#1 refused: "));
  EXPECT_EQ(plumbline("predict run.yaml --vary tp=1,2 --memory-budget 10KiB").exit_code, 3);
}

TEST_F(PredictVary, BadOptionsAreRefusedInOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"--vary tp", "--vary: found tp, expected KEY=VALUE,VALUE"},
      {"--vary tp=", "--vary: found tp=, expected KEY=VALUE,VALUE"},
      {"--vary tp=1,,2", "--vary: tensor_model_parallel_size: found an empty value"},
      {"--vary tp=2,2", "--vary: tensor_model_parallel_size: found 2 twice"},
      {"--vary tp=1 --vary tensor_model_parallel_size=2", "found twice, expected once"},
      {"--vary no_such_key=1", "no_such_key"},
      {"--vary seed=$(seq -s, 1 1001)", "found more than 1000 configurations"},
      {"--vary tp=1 --explain", "--vary: found with --explain"},
      {"--vary tp=1 --diff 0 7", "--diff: found 7, expected a row from 0 (the base) to 1"},
      {"--diff 0 tp=3", "--diff: tp 3: "},
      {"--diff 0 nowhere.yaml --patch", "--diff: nowhere.yaml: "}};
  for (const auto& [options, message] : cases) {
    const Said said = plumbline(fmt::format("predict run.yaml {}", options));
    EXPECT_EQ(said.exit_code, 2) << options;
    EXPECT_THAT(said.err, HasSubstr(message)) << options;
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << options << said.err;
  }
}

/// Operators and parts of the two steps explain the whole difference.
TEST_F(PredictVary, ADifferenceIsExplainedByPartAndOperator) {
  const json all = json_of(kLlama + std::string("--tp 2 --diff 0 tp=4,recompute_granularity=full --json"));
  const json& diff = all["diff"];
  EXPECT_EQ(diff["names"], json({"base", "tp 4, recompute_granularity full"}));
  EXPECT_EQ(diff["keys"]["tensor_model_parallel_size"], json({"2", "4"}));
  EXPECT_EQ(diff["keys"]["recompute_granularity"], json({"none", "full"}));
  for (const std::size_t side : {0U, 1U}) {
    double parts = 0, operators = 0;
    for (const char* part : kParts) parts += diff["time"][part][side].get<double>();
    for (const json& each : diff["operators"]) operators += each["seconds"][side].get<double>();
    const double step = diff["time"]["step_s"][side].get<double>();
    EXPECT_NEAR(parts, step, 1e-6 * step);
    EXPECT_NEAR(operators, step - diff["time"]["exposed_pipeline_s"][side].get<double>(), 0.02 * step);
  }
  const Said said = plumbline(kLlama + std::string("--tp 2 --diff 0 tp=4"));
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("  tensor_model_parallel_size: 2 -> 4\n"));
  EXPECT_THAT(said.out, HasSubstr("\nstep time "));
  EXPECT_THAT(said.out, HasSubstr("\nforward: "));
}

TEST_F(PredictVary, TheFastestRowIsPutIntoTheFile) {
  write("slow.yaml", kSmallRun + std::string("hardware: h100-sxm-80gb\nworld_size: 4\ntp: 2\n"));
  const Said said = plumbline("predict slow.yaml --vary tp=1,2 --vary zero_stage=0,1 --patch");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("--- slow.yaml\n+++ slow.yaml\n@@ "));
  EXPECT_THAT(said.out, HasSubstr("\n-tp: 2\n+tp: 1\n"));
  const json all = json_of("predict slow.yaml --vary tp=1,2 --vary zero_stage=0,1 --patch --json");
  EXPECT_THAT(all["patch"]["diff"].get<std::string>(), HasSubstr("\n-tp: 2\n+tp: 1\n"));
  const Said options = plumbline("predict slow.yaml --pp 2 --patch");
  EXPECT_THAT(options.out, HasSubstr("+pipeline_model_parallel_size: 2\n"));
  const Said other = plumbline("predict slow.yaml --diff 0 run.yaml --patch");
  EXPECT_THAT(other.err, HasSubstr("--patch: found run.yaml as B of --diff, expected a row or settings"));
}

}  // namespace
}  // namespace plumbline::predict_vary_test
