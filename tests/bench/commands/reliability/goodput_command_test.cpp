// `plumbline goodput` as a script sees it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::goodput_command_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class GoodputCommand : public ProgramFolder {
 protected:
  Said goodput(const std::string& arguments) const { return plumbline("goodput " + arguments); }
};

constexpr const char* kJob = "llama-3.1-8b --tp 8 --seq-length 8192 --gbs 16384 --step-time 4 --quiet";

TEST_F(GoodputCommand, AMonthOnAHundredThousandGpusTakesSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  const Said said = goodput(fmt::format("{} --gpus 131072 --json", kJob));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_LT(seconds, 10);
  const nlohmann::json json = nlohmann::json::parse(said.out);
  EXPECT_EQ(json["trials"], 10000);
  EXPECT_EQ(json["nodes"], 16384);
  EXPECT_EQ(json["checkpoint"]["bytes"], 14 * 8030261248);
  EXPECT_NEAR(json["between_failures_s"].get<double>() / 60, 23.2, 0.05);
  const nlohmann::json& effective = json["effective"];
  EXPECT_NEAR(effective["simulated"].get<double>() / effective["expected"].get<double>(), 1, 0.01);
  EXPECT_LT(effective["p5"], effective["p50"]);
  EXPECT_NEAR(json["tokens_per_day"].get<double>(),
              effective["simulated"].get<double>() * 16384 * 8192 / 4 * 86400, 1e6);
}

/// The verdict of the predicted step, as `predict` gives it; a step that is given has none.
TEST_F(GoodputCommand, SaysTheVerdictOnMemory) {
  const std::string step =
      "llama-3.1-70b --gpus 1024 --hardware h100-sxm-80gb --gbs 1024 --tp 8 --pp 4 --seq-length 8192 "
      "--software megatron-core --zero-stage 1 --sequence-parallel true --quiet";
  const nlohmann::json predicted = json_of("predict --json " + step)["prediction"];
  const nlohmann::json planned = json_of("goodput --trials 100 --json " + step);
  EXPECT_EQ(planned["verdict"], predicted["verdict"]);
  EXPECT_EQ(planned["chance"], predicted["chance"]);
  EXPECT_THAT(goodput("--trials 100 " + step).out, ContainsRegex("\nmemory: (fits|tight \\([0-9]+ %\\))\n"));
  EXPECT_FALSE(json_of(fmt::format("goodput --trials 10 --json {} --gpus 64", kJob)).contains("verdict"));
}

TEST_F(GoodputCommand, TextSaysWhatAPersonAsks) {
  const Said said =
      goodput(fmt::format("{} --gpus 16384 --trials 100 --spares 4 --repair-hours 24 --gpu-hour-price 2 "
                          "--gpu-watts 1200 --kwh-price 0.1 --plot p.svg",
                          kJob));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(read("p.svg"), ContainsRegex("half as many failures</text>\n(.*\n)*</svg>"));
  for (const char* words :
       {"16384 GPUs \\(2048 nodes\\), failure rates of llama3-405b: MTBF 3.1 h",
        "effective time +expected +simulated +5 % +50 % +95 %", "recomputed +[0-9.]+ %", "waiting +[0-9.]+ %",
        "Young +[0-9.]+ min", "Daly, higher order", "single change", "half as many failures",
        "nodes in repair: mean 5.9", "tokens per day", "GPU-hours in 30 days", "energy", "cost"}) {
    EXPECT_THAT(said.out, ContainsRegex(words));
  }
  EXPECT_THAT(goodput(fmt::format("{} --gpus 131072 --trials 10 --restart 3000", kJob)).out,
              HasSubstr("no progress: recovery"));
}

TEST_F(GoodputCommand, AFleetOfOnesOwnAndAPredictedStep) {
  write("mine.yaml", "causes:\n- {cause: node, mtbf_hours: 50000, detect_s: 600}\n");
  const Said said = goodput(
      "llama-3.1-8b --hardware h100-sxm-80gb --gpus 1024 --tp 8 --gbs 1024 --zero-stage 1 --fleet mine.yaml "
      "--trials 10 "
      "--json --quiet");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const nlohmann::json json = nlohmann::json::parse(said.out);
  EXPECT_EQ(json["fleet"], "mine");
  EXPECT_NEAR(json["between_failures_s"].get<double>() / 3600, 50000.0 / 128, 1e-6);
  EXPECT_GT(json["recovery_s"], 600 + 162);
  EXPECT_GT(json["step_s"], 0.01);
}

TEST_F(GoodputCommand, ElasticGroupsHoldAllStates) {
  const Said said = goodput(fmt::format("{} --gpus 131072 --elastic 128 --trials 100 --json", kJob));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const nlohmann::json json = nlohmann::json::parse(said.out);
  EXPECT_EQ(json["elastic_groups"], 128);
  EXPECT_GT(json["time"]["missing"], 0);
  const Said later = goodput(fmt::format(
      "{} --gpus 131072 --elastic 128 --elastic-restarts --trials 100 --json --zero-stage 1", kJob));
  ASSERT_EQ(later.exit_code, 0) << later.err;
  const nlohmann::json restarts = nlohmann::json::parse(later.out);
  EXPECT_LT(restarts["effective"]["expected"], json["effective"]["expected"]);
  EXPECT_GT(restarts["time"]["recovering"], json["time"]["recovering"]);
  EXPECT_NEAR(json["effective"]["simulated"].get<double>() / json["effective"]["expected"].get<double>(), 1,
              0.01);
}

TEST_F(GoodputCommand, WhatIsMissingIsAskedForInOneLine) {
  const std::pair<std::string, const char*> wrong[] = {
      {"llama-3.1-8b --gpus 8 --gbs 8 --seq-length 4096", "--step-time"},
      {fmt::format("{} --gpus 1024 --spares 4", kJob), "--repair-hours: missing"},
      {fmt::format("{} --gpus 1024 --kwh-price 4", kJob), "--gpu-watts: missing"},
      {fmt::format("{} --gpus 1024 --elastic 3", kJob),
       "expected a divisor of the 128 data-parallel replicas"},
      {fmt::format("{} --gpus 1024 --elastic 128 --zero-stage 1", kJob), "zero_stage 1"},
      {fmt::format("{} --gpus 1024 --fleet mars", kJob), "expected one of ft-hsdp, llama3-405b"},
      {fmt::format("{} --gpus 1024 --checkpoint-stall 0 --checkpoint-interval 1", kJob),
       "only one is written at a time"},
      {fmt::format("{} --gpus 1024 --frozen lora --software megatron-core", kJob),
       "--checkpoint-size: missing"},
      {fmt::format("{} --gpus 1001", kJob), "1001"}};
  for (const auto& [arguments, words] : wrong) {
    const Said said = goodput(arguments);
    EXPECT_EQ(said.exit_code, 2) << arguments;
    EXPECT_THAT(said.err, HasSubstr(words)) << arguments;
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  }
}

TEST_F(GoodputCommand, PublishedFiguresStandAlongsideTheLaws) {
  const Said said = goodput("--published");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, ContainsRegex("Llama-3.1-405B +5.2 TiB +5.168 +within rounding"));
  EXPECT_THAT(said.out, ContainsRegex("1,024 GPUs +7.9 h +28.85 +measured, disagrees with the formula"));
  EXPECT_THAT(said.out, ContainsRegex("C4: downtime after +1.16 % +- +not computed"));
  EXPECT_EQ(nlohmann::json::parse(goodput("--published --json").out)["checks"].size(), 20U);
}

}  // namespace
}  // namespace plumbline::goodput_command_test
