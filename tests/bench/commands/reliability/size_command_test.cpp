// `plumbline size` as a script sees it, and its trainings against published GPU-hours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "bench/ask/answer.hpp"
#include "bench/ask/size_answer.hpp"
#include "core/base/error.hpp"
#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::size_command_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class SizeCommand : public ProgramFolder {
 protected:
  Said size(const std::string& arguments) const { return plumbline("size " + arguments); }
};

// Fixed keys leave few configurations to search.
constexpr const char* kSmall =
    "gpt2-1558m --software megatron-core --precision bf16 --seq-length 1024 --tp 1 --pp 1 --zero-stage 1 "
    "--recompute-granularity none";

TEST_F(SizeCommand, FindsTheFewestAndTheCheapest) {
  const std::string job =
      std::string(kSmall) + " --tokens 300B --days 10 --gbs 128:512 --hardware h100,a100-sxm-80gb";
  const Said said = size(job + " --price h100=3/h,a100-sxm-80gb=0.5/h --plot days.svg");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, ContainsRegex("fewest GPUs: [0-9]+ h100-sxm-80gb: [0-9.]+ days"));
  EXPECT_THAT(said.out, ContainsRegex("least cost: [0-9]+ a100-sxm-80gb"));
  EXPECT_THAT(said.out, ContainsRegex("GPU-hours: compute [0-9.]+ %, .*failures and checkpoints [0-9.]+ %"));
  EXPECT_THAT(said.out, ContainsRegex("plumbline predict gpt2-1558m .*--gpus [0-9]+"));
  EXPECT_THAT(said.err, ContainsRegex("h100-sxm-80gb: [0-9]+ GPUs: [0-9.]+ days"));
  EXPECT_THAT(read("days.svg"), ContainsRegex("10 days</text>\n(.*\n)*</svg>"));
  const nlohmann::json json = json_of("size " + job + " --json --quiet");
  EXPECT_EQ(json["tokens"], 3e11);
  EXPECT_LE(json["fewest"]["days"], 10);
  ASSERT_EQ(json["hardware"].size(), 2U);
  for (const nlohmann::json& hardware : json["hardware"]) {
    double days = 1e9;
    int gpus = 0;
    for (const nlohmann::json& each : hardware["frontier"]) {
      EXPECT_GT(each["gpus"], gpus);
      EXPECT_LT(each["days"], days);
      gpus = each["gpus"];
      days = each["days"];
      double hours = 0;
      for (const auto& [part, value] : each["hours"].items()) hours += value.get<double>();
      EXPECT_NEAR(hours, days * 24 * gpus, 1e-6 * hours);
      EXPECT_LE(days <= 10 ? hardware["fewest"].get<int>() : 0, gpus);
      EXPECT_EQ(each["global_batch_size"].get<int>() % gpus, 0);
    }
  }
  const Said csv = size(job + " --csv --quiet");
  ASSERT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_THAT(csv.out, ContainsRegex("^hardware,gpus,days,.*command\nh100-sxm-80gb,[0-9]+,"));
}

// The command that it prints predicts the step that it sized.
TEST_F(SizeCommand, ItsCommandPredictsTheSameStep) {
  const nlohmann::json json = json_of(std::string("size ") + kSmall +
                                      " --tokens 300B --gpus 64 --gbs 512 --hardware h100 --json --quiet");
  const nlohmann::json& job = json["fewest"];
  EXPECT_EQ(job["gpus"], 64);
  const std::string command = job["command"];
  const nlohmann::json predicted = json_of(command.substr(std::string("plumbline ").size()) + " --json");
  EXPECT_NEAR(predicted["prediction"]["time"]["step_s"].get<double>(), job["step_s"].get<double>(), 1e-9);
}

TEST_F(SizeCommand, ProgramsAskTheSame) {
  const nlohmann::json reply = nlohmann::json::parse(answer(
      R"({"ask": "size", "config": "gpt2-1558m", "tokens": "300B", "price": "h100=2/h", "keys": {"gpus": 64,
          "gbs": 512, "hardware": "h100", "software": "megatron-core", "precision": "bf16", "tp": 1, "pp": 1,
          "zero_stage": 1, "recompute_granularity": "none"}})"));
  ASSERT_FALSE(reply.contains("error")) << reply;
  EXPECT_EQ(reply["fewest"]["gpus"], 64);
  EXPECT_NEAR(reply["fewest"]["cost"].get<double>(), 2 * reply["fewest"]["gpu_hours"].get<double>(), 1e-3);
}

TEST_F(SizeCommand, RefusesWhatItCannotAnswer) {
  const struct {
    const char* arguments;
    const char* error;
    int code;
  } cases[] = {
      {"gpt2-124m --days 3 --hardware h100-sxm-80gb", "--tokens: missing; expected the tokens to train on",
       2},
      {"gpt2-124m --tokens 2X --days 3 --hardware h100-sxm-80gb",
       "--tokens: found 2X, expected tokens, such as 2T", 2},
      {"gpt2-124m --tokens 2T --hardware h100-sxm-80gb",
       "--days: found neither it nor --gpus, expected one of them", 2},
      {"gpt2-124m --tokens 2T --days 3 --gpus 8 --hardware h100-sxm-80gb", "--days: found --gpus too", 2},
      {"gpt2-124m --tokens 2T --days 3", "--hardware: missing", 2},
      {"gpt2-124m --tokens 2T --days 3 --hardware h100-sxm-80gb --gbs 8:2", "found 8:2, expected sequences",
       2},
      {"gpt2-124m --tokens 2T --days 3 --hardware h100-sxm-80gb --price 2", "--price: found 2, expected", 2},
      {"gpt2-124m --tokens 2T --days 3 --hardware h100-sxm-80gb --price a100-sxm-80gb=2",
       "--price: found a100-sxm-80gb", 2},
      {"gpt2-124m --tokens 2T --days 3 --hardware h100-sxm-80gb --deadline soon", "--deadline: found soon",
       2},
      {"gpt2-124m --tokens 2T --days 3 --hardware no-such", "no-such", 2},
      {"llama-3.1-405b --tokens 2T --gpus 8 --gbs 8 --hardware h100-sxm-80gb --tp 8 --pp 1 --seq-length 8192",
       "found no layout that fits", 3},
      {"llama-3.1-8b --tokens 2T --days 3 --hardware h100-sxm-80gb --deadline 0.000001s", "raise --deadline",
       5},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.arguments);
    const Said said = size(std::string(each.arguments) + " --quiet");
    EXPECT_EQ(said.exit_code, each.code);
    EXPECT_THAT(said.err, HasSubstr(each.error));
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  }
}

TEST(SizeText, NumbersHaveUnits) {
  EXPECT_EQ(parse_tokens("15.6T", "x"), 15.6e12);
  EXPECT_EQ(parse_tokens("5e11", "x"), 5e11);
  EXPECT_EQ(parse_tokens("300B", "x"), 300e9);
  EXPECT_EQ(parse_duration("2min", "x"), 120);
  EXPECT_EQ(parse_duration("10", "x"), 10);
  EXPECT_EQ(parse_batch("512:2048", "x").least, 512);
  EXPECT_EQ(parse_batch("2048", "x").least, 2048);
  EXPECT_EQ(parse_prices("h100=2.5/h,b200=4", "x")[1].gpu_hour, 4);
  for (const char* bad : {"", "T", "-1T", "1e400", "nan", "0", "2TT"})
    EXPECT_THROW(parse_tokens(bad, "x"), InputError) << bad;
  for (const char* bad : {"", "8:2", "0", "1:2:3", "a:b", ":4", "99999999999"})
    EXPECT_THROW(parse_batch(bad, "x"), InputError) << bad;
}

TEST_F(SizeCommand, PublishedTrainingsTakeTheirGpuHours) {
  const nlohmann::json json = json_of("size --published --json --quiet");
  std::vector<std::string> within;
  for (const nlohmann::json& each : json["trainings"]) {
    SCOPED_TRACE(each["training"].get<std::string>());
    const double ratio = each["ratio"];
    EXPECT_GT(ratio, 0.3);
    EXPECT_LT(ratio, 1.15);
    EXPECT_EQ(std::abs(ratio - 1) <= 0.15, each["within"].get<bool>());
    EXPECT_GT(each["difference"].get<std::string>().size(), 40U);
    if (each["within"]) within.push_back(each["training"]);
  }
  EXPECT_GE(json["trainings"].size(), 8U);
  EXPECT_THAT(within, testing::IsSupersetOf({"Llama 3.1 405B", "DeepSeek-V3"}));
}

}  // namespace
}  // namespace plumbline::size_command_test
