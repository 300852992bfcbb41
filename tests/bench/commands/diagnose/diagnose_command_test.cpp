// `plumbline diagnose` as a script sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::diagnose_command_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using DiagnoseCommand = ProgramFolder;

/// A step of 2 s: a product of 1.5 s and a reduction of 0.25 s behind it, on an H100.
std::string trace_of(int rank) {
  return R"({"deviceProperties":[{"name":"NVIDIA H100 80GB HBM3"}],"distributedInfo":{"rank":)" +
         std::to_string(rank) +
         R"(},"traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#4","pid":9,"tid":9,"ts":0,"dur":2000000},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":9,"tid":9,"ts":10,"dur":9,"args":{"Input Dims":[[8,4],[4,2]]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":12,"dur":3,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"nvjet_tst","pid":0,"tid":7,"ts":100,"dur":1500000,"args":{"correlation":1}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce","pid":0,"tid":9,"ts":1500100,"dur":250000,"args":
{"Collective name":"allreduce","Process Group Description":"dp","Group size":2,"dtype":"Float","In msg nelems":99}}
]})";
}

TEST_F(DiagnoseCommand, PrintsTheStepByCategory) {
  write("a.json", trace_of(0));
  write("b.json", trace_of(1));
  const Said said = plumbline("diagnose a.json b.json");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out,
              AllOf(HasSubstr("step 4 (1 in the trace, by profiler steps), 2 ranks, NVIDIA H100"),
                    HasSubstr("exposed DP communication             0.250000   12.5   0.250000   0.250000"),
                    HasSubstr("+0.25 s exposed DP communication")));
  const nlohmann::json json = nlohmann::json::parse(plumbline("diagnose a.json b.json --json").out);
  EXPECT_DOUBLE_EQ(json.at("time").at("products_s"), 1.5);
  EXPECT_EQ(json.at("ranks").size(), 2U);
  EXPECT_EQ(json.at("clocks").at("collectives"), 1);
}

TEST_F(DiagnoseCommand, PutsThePredictionBesideIt) {
  write("a.json", trace_of(0));
  const std::string asked =
      "diagnose a.json llama-3.1-8b --gpus 2 --tp 1 --zero-stage 3 --gbs 2 --hardware h100 ";
  const Said said = plumbline(asked);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, AllOf(HasSubstr("predicted, s"), HasSubstr("above the prediction")));
  const nlohmann::json json = nlohmann::json::parse(plumbline(asked + "--json").out);
  const nlohmann::json predicted =
      nlohmann::json::parse(plumbline("predict " + asked.substr(asked.find("llama")) + "--json").out);
  const double step = predicted.at("prediction").at("time").at("step_s");
  EXPECT_NEAR(json.at("predicted").at("step_s"), step, 1e-9 * step);
  double sum = 0;
  for (const auto& [key, seconds] : json.at("predicted").at("time").items()) sum += seconds.get<double>();
  EXPECT_NEAR(sum, step, 1e-9 * step);
}

TEST_F(DiagnoseCommand, SumsUpALogAndWritesARowForValidate) {
  std::string log;
  for (int i = 1; i <= 20; ++i)
    log += " iteration " + std::to_string(i) + "/ 20 | elapsed time per iteration (ms): 800.0 |\n";
  write("train.log", log);
  EXPECT_THAT(plumbline("diagnose --log train.log").out, HasSubstr("step time: median 800.00 ms"));
  const Said said = plumbline(
      "diagnose llama-3.1-8b --gpus 8 --tp 2 --mbs 1 --gbs 8 --seq-length 4096 "
      "--software megatron-core --hardware h100 --log train.log --json");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const nlohmann::json json = nlohmann::json::parse(said.out);
  EXPECT_NEAR(json.at("step_s"), 0.8, 1e-12);
  std::filesystem::create_directory(folder_ / "rows");
  write("rows/mine.csv", json.at("table").get<std::string>());
  write("rows/mine.yaml", "title: mine\nsource: a log\n");
  const Said valid = plumbline("validate --tables rows --json");
  ASSERT_EQ(valid.exit_code, 0) << valid.err;
  const nlohmann::json rows = nlohmann::json::parse(valid.out);
  EXPECT_EQ(rows.at("tables").at(0).at("rows"), 1) << valid.out;
}

TEST_F(DiagnoseCommand, RefusesInOneLine) {
  write("a.json", trace_of(0));
  write("train.log", "nothing\n");
  for (const auto& [arguments, said] :
       {std::pair("", "found no trace"), std::pair("a.json a.json", "rank 0 a second time"),
        std::pair("a.json --step 9", "--step: found 9"), std::pair("--log train.log", "found no iteration"),
        std::pair("a.json --log train.log", "found --log with a trace"),
        std::pair("a.json llama-3.1-8b --gpus 8", "hardware: missing")}) {
    const Said refused = plumbline(std::string("diagnose ") + arguments);
    EXPECT_EQ(refused.exit_code, 2) << arguments;
    EXPECT_THAT(refused.err, HasSubstr(said));
    EXPECT_THAT(refused.err, ::testing::EndsWith("\n"));
    EXPECT_EQ(refused.err.find('\n', refused.err.find("plumbline: ")), refused.err.size() - 1) << refused.err;
  }
}

}  // namespace
}  // namespace plumbline::diagnose_command_test
