// `plumbline bench` and `plumbline import-bench` as a script sees them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/analysis/hardware/logs/public_logs.hpp"
#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::bench_command_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::vector<std::string>> words_by_line(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  std::istringstream all(text);
  for (std::string line; std::getline(all, line);) {
    std::istringstream words(line);
    lines.emplace_back();
    for (std::string word; words >> word;) lines.back().push_back(word);
  }
  return lines;
}

class BenchCommand : public ProgramFolder {
 protected:
  const std::string quick_ = " --sizes 8:4K:8 --time-limit 0.02 --ranks 2";
};

TEST_F(BenchCommand, PrintsColumnsOfNcclTestsAndThePrediction) {
  const Said said = plumbline("bench collective all-reduce all-gather" + quick_);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out,
              StartsWith("# AllReduce, float, 2 ranks of the world group, backend cpu, out-of-place\n"));
  EXPECT_THAT(said.out, HasSubstr("# AllGather, float, 2 ranks of the world group, backend cpu, in-place\n"));
  EXPECT_THAT(said.out, HasSubstr("# Out of bounds values : 0 OK\n"));
  int rows = 0;
  for (const auto& words : words_by_line(said.out)) {
    if (words.empty() || words.front().starts_with('#')) continue;
    ++rows;
    ASSERT_EQ(words.size(), 13U);
    EXPECT_EQ(words[2], "float");
    EXPECT_EQ(words[8], "0");
    EXPECT_NE(words[9], "-");
    EXPECT_EQ(words[10], "-");  // nothing is calibrated here
    const double rate = std::stod(words[0]) / std::stod(words[5]) * 1e-3;
    EXPECT_NEAR(rate, std::stod(words[6]), 0.001 + 0.02 * rate);  // the time has two digits
  }
  EXPECT_EQ(rows, 4 * 4);  // sizes 8, 64, 512, 4096
}

TEST_F(BenchCommand, IsReadByReadersOfNcclTests) {
  const Said said = plumbline("bench collective all-reduce --nccl-tests" + quick_);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  // As SuperBench reads it (superbench/benchmarks/micro_benchmarks/cuda_nccl_bw_performance.py): by names.
  std::vector<std::string> names;
  int read = 0;
  for (const auto& words : words_by_line(said.out)) {
    if (words.size() > 8 && words[1] == "size") names = {words.begin() + 1, words.end()};
    if (names.empty() || words.empty() || words.front().starts_with('#')) continue;
    ASSERT_EQ(words.size(), 13U);
    ASSERT_EQ(names.size(), 13U);
    EXPECT_EQ(names[7], "busbw");
    EXPECT_GT(std::stod(words[words.size() - 4]), 0);  // time in place, counted from the end
    EXPECT_GE(std::stod(words[words.size() - 6]), 0);  // busbw out of place
    ++read;
  }
  EXPECT_EQ(read, 4);
  write("ours.log", said.out);
  const auto imported =
      json_of("import-bench ours.log --hardware h100 --ranks 2 --nodes 1 --collective all-reduce --json");
  EXPECT_EQ(imported["sweeps"][0]["bytes"].size(), 4U);
}

TEST_F(BenchCommand, PrintsOsusFormCsvJsonAndAPlot) {
  const Said osu = plumbline("bench collective latency bandwidth" + quick_);
  ASSERT_EQ(osu.exit_code, 0) << osu.err;
  EXPECT_THAT(osu.out, HasSubstr("\n# Size          Latency (us)"));
  EXPECT_THAT(osu.out, HasSubstr("\n# Size      Bandwidth (MB/s)\n"));
  const Said csv = plumbline("bench collective all-to-all-uneven --csv" + quick_);
  ASSERT_EQ(csv.exit_code, 0) << csv.err;
  EXPECT_THAT(csv.out, StartsWith("collective,ranks,rankspernode,gpusperrank,size,type,redop,inplace,time,"));
  EXPECT_THAT(csv.out, HasSubstr("\nAlltoAllv,2,2,1,"));
  const auto rows = json_of("bench collective send-receive broadcast --json --plot plot.svg" + quick_);
  EXPECT_EQ(rows.size(), 8U);
  for (const char* key : {"name", "nodes", "ranks", "ranksPerNode", "gpusPerRank", "size", "type", "redop",
                          "inPlace", "time", "algBw", "busBw", "wrong", "predicted", "difference"})
    EXPECT_TRUE(rows[0].contains(key)) << key;
  EXPECT_EQ(rows[0]["name"], "SendRecv");
  EXPECT_THAT(read("plot.svg"), StartsWith("<svg "));
  EXPECT_THAT(read("plot.svg"), HasSubstr(">predicted</text>"));
}

TEST_F(BenchCommand, GivesPredictionsOfACalibratedProfileAnInterval) {
  std::ifstream file(PLUMBLINE_SOURCE_DIR "/results/recorded/xeon-2-cores/profile.json");
  auto profile = nlohmann::json::parse(file);
  const double noise = 0.07;
  profile["calibration"] = {{"unix_s", 1}, {"noise", {{"messages", noise}}}};
  write("profile.json", profile.dump());
  const auto rows =
      json_of("bench collective all-reduce --json --sizes 64K --time-limit 0.02 --hardware profile.json");
  const double predicted = rows[0]["predicted"];
  EXPECT_NEAR(rows[0]["predictedHigh"].get<double>() / predicted, 1 + noise, 1e-9);
  EXPECT_NEAR(predicted / rows[0]["predictedLow"].get<double>(), 1 + noise, 1e-9);
  EXPECT_FALSE(json_of("bench collective all-reduce --json --sizes 64 --time-limit 0.02 --hardware "
                       "h100-sxm-80gb")[0]
                   .contains("predictedLow"));
}

TEST_F(BenchCommand, BenchesGroupsOfAConfigurationAtOnce) {
  const auto rows =
      json_of("bench collective all-reduce --group tp --tp 2 --pp 2 --json --sizes 1K --time-limit 0.02");
  EXPECT_EQ(rows[0]["ranks"], 2);
  EXPECT_EQ(rows[0]["groups"], 2);
  write("run.yaml", std::string(kSmallRun) + "pipeline_model_parallel_size: 2\n");
  const auto of_file = json_of(
      "bench collective send-receive --group pp --config run.yaml --json --sizes 1K --time-limit 0.02");
  EXPECT_EQ(of_file[0]["ranks"], 2);
  EXPECT_EQ(of_file[0]["group"], "pipeline");
}

TEST_F(BenchCommand, IsARankUnderMpirun) {
  const std::string command = fmt::format(
      "cd {} && {} mpirun --allow-run-as-root --oversubscribe -n 2 {} bench collective all-reduce --csv "
      "--sizes 64 "
      "--time-limit 0.02 > ranks.csv 2> ranks.err",
      folder_.string(), environment(), PLUMBLINE_PROGRAM);
  ASSERT_EQ(std::system(command.c_str()), 0) << read("ranks.err");
  EXPECT_EQ(words_by_line(read("ranks.csv")).size(), 3U);  // head, out of place, in place: once
}

TEST_F(BenchCommand, RefusesWhatItCannotDo) {
  const std::pair<const char*, const char*> cases[] = {
      {"bench collective all-reduce --sizes 8:4", "--sizes"},
      {"bench collective all-reduce --sizes 8:1T:2", "--sizes"},
      {"bench collective all-reduce --sizes 8:64:1", "--sizes: found factor \"1\""},
      {"bench collective all-reduce --sizes a:64:2", "--sizes: found \"a\""},
      {"bench collective all-reduce --sizes 1:2:3:4", "MIN:MAX:FACTOR"},
      {"bench collective all-reduce --ranks 1", "--"},
      {"bench collective latency --ranks 3", "expected pairs"},
      {"bench collective all-reduce --tp 2 --ranks 3", "--ranks: found 3"},
      {"bench collective all-reduce --group tp --pp 2", "--group: found tensor"},
      {"bench collective all-swap", "KIND"},
      {"bench abacus", "WHAT"},
      {"bench collective gemm", "KIND: found gemm"},
      {"bench collective --shape m=8", "--shape: found it with bench collective"},
      {"bench operator all-reduce", "KIND: found all-reduce"},
      {"bench operator gemm --sizes 8", "--sizes: found it with bench operator"},
      {"bench operator gemm --type int32", "--type: found int32"},
      {"bench operator gemm --shape 512", "--shape: found \"512\""},
      {"bench operator gemm --shape m=8,n=8", "--shape: k: found nothing"},
      {"bench operator gemm --shape m=8,n=8,k=8,heads=2", "--shape: heads: found 2"},
      {"bench operator gemm --shape m=8,n=8,k=8,pass=backward", "--shape: pass: found backward"},
      {"bench operator gemm --shape m=1000000,n=8,k=1000000", "--shape: shape: found m 1000000"},
      {"bench operator attention --shape sequence=8,heads=3,kv_heads=2", "--shape: kv_heads: found 2"},
      {"bench operator experts --shape tokens=8,hidden=8,ffn=8,choices=4,experts=2", "choices: found 4"},
      {"bench operator memory-bound --shape name=gemm,tokens=8,width=8", "--shape: name: found gemm"},
      {"bench operator gemm --shapes short.csv", "short.csv:2: k: found nothing"},
      {"bench operator gemm --shapes short.csv --config run.yaml", "--config"},
      {"bench operator gemm --backend cuda --shape m=8,n=8,k=8", "found cuda"},
      {"bench collective all-reduce --json --csv", "--csv"},
      {"import-bench missing.log", "missing.log"},
      {"import-bench empty.log", "empty.log: found no table"},
      {"import-bench gb200.log", "--hardware"},
      {"import-bench gb200.log --hardware gb200-nvl72", "--nodes"},
  };
  write("empty.log", "\n");
  write("short.csv", "m,n\n8,8\n");
  write("gb200.log", public_logs::kGb200);
  for (const auto& [arguments, message] : cases) {
    const Said said = plumbline(arguments);
    if (std::string(arguments).ends_with("gb200.log")) {
      EXPECT_EQ(said.exit_code, 2);  // the nodes or the hardware: both are missing
      continue;
    }
    EXPECT_EQ(said.exit_code, 2) << arguments << said.out;
    EXPECT_THAT(said.err, HasSubstr(message)) << arguments;
  }
}

TEST_F(BenchCommand, ImportsLogsAsHardware) {
  write("gb200.log", public_logs::kGb200);
  const Said said = plumbline("import-bench gb200.log --hardware gb200-nvl72 --nodes 18 --out mine.json");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("nccl-tests  all-reduce          72     18      5"));
  EXPECT_THAT(said.out, HasSubstr("  node_bandwidth"));
  write("run.yaml", kSmallRun);
  const Said predicted = plumbline("predict run.yaml --tp 2 --hardware mine.json");
  EXPECT_EQ(predicted.exit_code, 0) << predicted.err;
  const Said topology =
      plumbline("topology superpod-b200:1 --gpus 16 --tp 8 --collective all-reduce --hardware mine.json");
  EXPECT_EQ(topology.exit_code, 0) << topology.err;
}

}  // namespace
}  // namespace plumbline::bench_command_test
