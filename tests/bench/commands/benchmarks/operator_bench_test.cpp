// `plumbline bench operator` as a script sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::operator_bench_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string kQuick = " --time-limit 0.02";

class OperatorBench : public ProgramFolder {};

TEST_F(OperatorBench, MeasuresGivenShapesBesideTheirPredictions) {
  const auto rows = json_of(
      "bench operator gemm --shape m=64,n=96,k=128 --shape m=128,n=64,k=32,type=bf16"
      ",pass=weight_gradient --json" +
      kQuick);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["operator"], "gemm");
  EXPECT_EQ(rows[0]["shape"]["n"], 96);
  EXPECT_EQ(rows[0]["flops"], 2 * 64 * 96 * 128);
  EXPECT_EQ(rows[0]["bytes"], 4 * (64 * 128 + 128 * 96 + 64 * 96));
  EXPECT_EQ(rows[1]["pass"], "weight_gradient");
  EXPECT_EQ(rows[1]["bytes"], 2 * (128 * 32 + 32 * 64) + 8 * 128 * 64);  // C in fp32, read and written
  for (const auto& row : rows) {
    for (const char* part : {"isolated", "batched"}) {
      const auto& time = row[part];
      EXPECT_GT(time["seconds"], 0);
      EXPECT_LE(time["low_s"], time["seconds"]);
      EXPECT_GE(time["high_s"], time["seconds"]);
      EXPECT_GT(time["predicted_s"], 0);
      EXPECT_GT(time["clock"], 0);
    }
    EXPECT_GT(row["batched"]["calls"], row["isolated"]["calls"]);
  }
}

TEST_F(OperatorBench, TakesShapesOfAConfigurationAndOfATable) {
  write("run.yaml", kSmallRun);
  const auto rows = json_of("bench operator --config run.yaml --json --time-limit 0.01");
  std::set<std::string> kinds, calls;
  for (const auto& row : rows) {
    kinds.insert(row["operator"]);
    calls.insert(std::string(row["operator"]) + " " + std::string(row["pass"]));
    EXPECT_FALSE(row["label"].get<std::string>().empty() && row["operator"] == "gemm");
  }
  EXPECT_THAT(kinds, testing::ElementsAre("attention", "gemm", "memory-bound"));
  EXPECT_THAT(calls, testing::IsSupersetOf({"gemm forward", "gemm input_gradient", "gemm weight_gradient",
                                            "attention forward", "attention backward"}));
  write("shapes.csv", "m,n,k,mine\n32,32,32,a\n64,64,64,b\n");
  const Said csv = plumbline("bench operator gemm --shapes shapes.csv --csv" + kQuick);
  ASSERT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_THAT(csv.out, StartsWith("operator,name,label,pass,type,shape,count,flops,bytes,isolated_us,"));
  EXPECT_THAT(csv.out, HasSubstr("\ngemm,,,forward,fp32,\"m 64, n 64, k 64\",1,524288,"));
}

TEST_F(OperatorBench, PredictsAnAcceleratorAsOperatorDoes) {
  const auto rows = json_of(
      "bench operator attention --shape sequence=512,heads=4,kv_heads=1,head=64 --type bf16 "
      "--hardware h100-sxm-80gb --json" +
      kQuick);
  const auto predicted = json_of(
      "operator attention --sequence 512 --heads 4 --kv-heads 1 --head 64 --hardware h100-sxm-80gb --json");
  EXPECT_EQ(rows[0]["batched"]["predicted_s"], predicted["seconds"]);
  EXPECT_EQ(rows[0]["basis"], predicted["basis"]);
}

TEST_F(OperatorBench, MeasuresEveryKindAndPrintsATable) {
  const Said said = plumbline("bench operator gemm attention experts memory-bound --time-limit 0.01");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const char* text : {"# gemm, backend cpu", "# attention, backend cpu", "# experts, backend cpu",
                           "m 256, n 256, k 256", "attention backward", "cross_entropy_gradient",
                           "# Median difference : isolated ", "# Throttled samples : "})
    EXPECT_THAT(said.out, HasSubstr(text));
}

}  // namespace
}  // namespace plumbline::operator_bench_test
