// `plumbline topology` and `plumbline stragglers` as a script sees them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::cluster_commands_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class ClusterCommands : public ProgramFolder {
 protected:
  Said plumbline(const std::string& arguments) const {
    return ProgramFolder::plumbline("--quiet " + arguments);
  }
};

constexpr const char* kJob =
    "model: llama-3.1-8b\nhardware: h100-sxm-80gb\ntensor_model_parallel_size: "
    "4\npipeline_model_parallel_size: 8\n"
    "seq_length: 2048\nglobal_batch_size: 65536\nzero_stage: 1\n";

TEST_F(ClusterCommands, TopologyCountsAndRates) {
  const nlohmann::json json = json_of("topology superpod-b200:16 --json");
  EXPECT_EQ(json["leaf"], 128);
  EXPECT_EQ(json["cables_spine_core"], 4096);
  EXPECT_TRUE(json["axes"].empty());
  const Said llama = plumbline("topology llama3:2 --tp 8 --pp 16");
  EXPECT_THAT(llama.out, ContainsRegex("tp +8 +768 +ring +450.0 +450.0 +nvlink"));
  EXPECT_THAT(llama.out, ContainsRegex("pp +16 +384 +all-to-all +50.0 +13.4 +spine to core"));
  EXPECT_THAT(plumbline("topology llama3:2 --pp 16 --tp 8 --rank-order pp-tp-cp-dp").out,
              ContainsRegex("pp +16 +384 +all-to-all +93.8 +93.8 +port"));
}

TEST_F(ClusterCommands, TopologyOfASlurmCluster) {
  write("topology.conf",
        "SwitchName=a Nodes=n[0-3]\nSwitchName=b Nodes=n[4-7]\nSwitchName=top Switches=a,b\n");
  const Said one =
      plumbline("topology --slurm topology.conf --oversubscription 4 --tp 8 --hosts n[0-3] --json");
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const Said both =
      plumbline("topology --slurm topology.conf --oversubscription 4 --tp 8 --hosts n[0,4] --json");
  const auto all_to_all = [](const Said& said) {
    return nlohmann::json::parse(said.out)["axes"].back()["together_bytes_per_s"].get<double>();
  };
  EXPECT_EQ(all_to_all(one), 50e9);
  EXPECT_EQ(all_to_all(both), 50e9) << "eight messages over eight cables";
  const std::pair<const char*, const char*> wrong[] = {
      {"topology", "either NETWORK"},
      {"topology superpod-b200:3", "power of two"},
      {"topology --slurm nowhere.conf", "nowhere.conf"},
      {"topology superpod-b200:1 --tp 3", "a multiple of tp x cp x pp = 3"},
      {"topology superpod-b200:1 --tp 8 --rank-order tp", "--rank-order"},
      {"topology --slurm topology.conf --hosts n[0-9]", "at most 8 hosts"},
      {"topology --slurm topology.conf --hosts m1", "--hosts: found m1"},
      {"topology rail-only:4 --tp 2", "no path from leaf"},
      {"topology superpod-b200:1 --collective gather", "--collective: found gather"},
      {"topology superpod-b200:1 --collective all-gather --sizes 0", "--sizes: found 0"},
      {"topology superpod-b200:1 --collective all-gather --hardware b2000",
       "hardware: found b2000, expected one of"},
      {"topology superpod-b200:1 --gpus 4096", "expected at least the 4096"}};
  for (const auto& [arguments, words] : wrong) {
    const Said said = plumbline(arguments);
    EXPECT_EQ(said.exit_code, 2) << arguments;
    EXPECT_THAT(said.err, HasSubstr(words)) << arguments;
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  }
}

TEST_F(ClusterCommands, TopologyShowsCollectivesByAlgorithmAndSize) {
  const Said said = plumbline("topology superpod-b200:4 --tp 8 --collective all-reduce --sizes 64KiB,4GiB");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("all-reduce along dp: 128 ranks in 128 nodes, 8 concurrent groups"));
  EXPECT_THAT(said.out, ContainsRegex("NVLS +nvlink"));
  const nlohmann::json json = nlohmann::json::parse(
      plumbline("topology superpod-b200:4 --tp 8 --collective all-reduce --sizes 64KiB,4GiB --json").out);
  EXPECT_EQ(json["sizes_bytes"], nlohmann::json({65536, std::int64_t{1} << 32}));
  ASSERT_EQ(json["axes"].size(), 2U);
  EXPECT_EQ(json["axes"][1]["taken"], "ring");
  EXPECT_FALSE(json["axes"][1].contains("nccl"));
  EXPECT_EQ(json["axes"][1]["hardware"], "b200-sxm-180gb");
  EXPECT_LT(json["axes"][1]["seconds"][0], json["axes"][1]["seconds"][1]);
  EXPECT_EQ(json["axes"][1]["algorithms"][0]["busiest_link"], "port");
}

TEST_F(ClusterCommands, TopologyFindsTheOrderOfTheAxesOfAConfiguration) {
  write("job.yaml", kJob);
  const Said said = plumbline("topology llama3:2 --config job.yaml --gpus 4096");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_THAT(said.out, ContainsRegex("\ntp-[a-z-]+ +[0-9.]+ s +tp [0-9.]+ s nvlink"));
  EXPECT_THAT(said.out, ContainsRegex("the default tp-dp-pp-cp"));
  const nlohmann::json json =
      nlohmann::json::parse(plumbline("topology llama3:2 --config job.yaml --gpus 4096 --json").out);
  EXPECT_EQ(json["orders"].size(), 6U);
  EXPECT_LE(json["orders"][0]["seconds"], json["orders"][1]["seconds"]);
  EXPECT_EQ(plumbline("topology llama3:2 --config job.yaml --tp 4").exit_code, 2);
}

TEST_F(ClusterCommands, StragglersOnAHundredThousandGpus) {
  write("job.yaml", kJob);
  const nlohmann::json json = json_of(
      "stragglers job.yaml --gpus 131072 --set global_batch_size=524288 --jitter 1 --slow-share 0.01 "
      "--replace 100000 --simulated-steps 20 --json");
  const auto mean = [&](std::size_t i) { return json["cases"][i]["mean_s"].get<double>(); };
  ASSERT_EQ(json["cases"].size(), 4U);
  const double quiet = json["quiet_s"];
  EXPECT_GT(mean(0), quiet);
  EXPECT_GT(mean(1), 1.05 * quiet);
  EXPECT_LT(mean(1), 1.1 * quiet + 1e-6);
  EXPECT_GT(mean(2), std::max(mean(0), mean(1)));
  EXPECT_NEAR(mean(3) / mean(0), 1, 0.02) << "without slow GPUs jitter is left";
  EXPECT_EQ(json["cases"][3]["slow_gpus"], 0);
  EXPECT_THAT(plumbline("stragglers job.yaml --gpus 1024 --jitter 1 --simulated-steps 5").out,
              ContainsRegex("with noise +[0-9.]+ "));
}

TEST_F(ClusterCommands, StragglersAsAPageAndByKindOfAction) {
  write("job.yaml", kJob);
  const std::string noise =
      "stragglers job.yaml --gpus 1024 --jitter F=2,B=3 --slow-link-share 1 --simulated-steps 20";
  const Said page = plumbline(noise + " --html");
  ASSERT_EQ(page.exit_code, 0) << page.err;
  EXPECT_THAT(page.out, ContainsRegex("^<!doctype html>"));
  EXPECT_THAT(page.out, HasSubstr("<polyline"));
  EXPECT_THAT(page.out, HasSubstr("slow links alone"));
  EXPECT_EQ(page.out.find("<script"), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(plumbline(noise + " --json").out);
  ASSERT_EQ(json["cases"].size(), 3U);
  ASSERT_FALSE(json["cases"][2]["blame"].empty());
  EXPECT_GT(json["cases"][2]["blame"][0]["cost_s"], 0.0);
  EXPECT_THAT(plumbline(noise).out, ContainsRegex("pipeline [0-9]+ finishes last"));
  for (const char* wrong : {"X=2", "F=", "F=2,", "101", "-1", "two"})
    EXPECT_EQ(plumbline(std::string("stragglers job.yaml --jitter=") + wrong).exit_code, 2) << wrong;
  const Said month =
      plumbline("goodput llama-3.1-8b --gpus 1024 --tp 8 --gbs 1024 --step-time 5 --trials 50 --html");
  ASSERT_EQ(month.exit_code, 0) << month.err;
  EXPECT_THAT(month.out, HasSubstr("Expected effective time of 1024 GPUs"));
}

// Four emulated replicas, one of them with calls that take 1.1 times as long.
TEST_F(ClusterCommands, StragglersOfARunAreNamed) {
  write("run.yaml",
        "model: qwen2.5-0.5b\nhardware: h100-sxm-80gb\nbackend: emulated\ndata_parallel_size: 4\nseq_length: "
        "2048\nglobal_batch_size: 16\nsteps: 3\nwarmup_steps: 1\n");
  for (const char* slow : {"none", "2:1.1"}) {
    const Said run = plumbline(std::string("run run.yaml --json --slow-ranks ") + slow);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    write("run.json", run.out);
    EXPECT_EQ(nlohmann::json::parse(run.out)["config"]["slow_ranks"], slow);
    const Said said = plumbline("stragglers --record run.json --json");
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const nlohmann::json record = nlohmann::json::parse(said.out)["records"][0];
    EXPECT_EQ(record["compared_ranks"], 4);
    ASSERT_EQ(record["slow_ranks"].size(), slow == std::string("none") ? 0U : 1U) << said.out;
    if (record["slow_ranks"].empty()) {
      EXPECT_THAT(plumbline("stragglers --record run.json").out,
                  HasSubstr("; smallest detectable slowdown 1.05 x"));
      continue;
    }
    EXPECT_EQ(record["slow_ranks"][0]["rank"], 2);
    EXPECT_NEAR(record["slow_ranks"][0]["factor"].get<double>(), 1.1, 0.02);
    EXPECT_THAT(plumbline("stragglers --record run.json").out, HasSubstr("rank 2: compute time 1.1"));
  }
  for (const char* wrong : {"4:1.1", "1:0.9", "1", "1:1.1,1:1.2", "1:1.1,"}) {
    const Said said = plumbline(std::string("run run.yaml --slow-ranks ") + wrong);
    EXPECT_EQ(said.exit_code, 2) << wrong;
    EXPECT_THAT(said.err, HasSubstr("slow_ranks")) << wrong;
  }
}

TEST_F(ClusterCommands, StragglersOfATimelineAreNamed) {
  std::string predicted;
  std::string measured;
  for (int rank = 0; rank < 3; ++rank) {
    const double factor = rank == 1 ? 1.2 : 1;
    const std::string comma = rank == 0 ? "" : ",";
    const std::string actions = fmt::format("\"{0}F0\",\"{0}F1\",\"{0}B0\",\"{0}B1\"", rank);
    const auto rank_of = [&](double scale) {
      return fmt::format("{}{{\"actions\":[{}],\"start_s\":[0,1,2,3],\"end_s\":[{},{},{},{}]}}", comma,
                         actions, 0.5 * scale, 1 + 0.5 * scale, 2 + 0.5 * scale, 3 + 0.5 * scale);
    };
    predicted += rank_of(1);
    measured += rank_of(factor);
  }
  write("t.json",
        fmt::format(
            "{{\"schema\":1,\"id\":\"x\",\"predicted\":{{\"ranks\":[{}]}},\"measured\":{{\"ranks\":[{}]}}}}",
            predicted, measured));
  EXPECT_THAT(plumbline("stragglers --timeline t.json").out,
              HasSubstr("pipeline rank 1: compute time 1.200 x"));
  const nlohmann::json json = nlohmann::json::parse(plumbline("stragglers --timeline t.json --json").out);
  ASSERT_EQ(json["slow_ranks"].size(), 1U);
  EXPECT_EQ(json["slow_ranks"][0]["rank"], 1);
  write("job.yaml", kJob);
  for (const char* wrong : {"stragglers job.yaml --gpus 1024", "stragglers --timeline job.yaml",
                            "stragglers job.yaml --gpus 1024 --jitter 1 --replace 3",
                            "stragglers job.yaml --gpus 131072 --jitter 1 --simulated-steps 1000000"}) {
    const Said said = plumbline(wrong);
    EXPECT_EQ(said.exit_code, 2) << wrong;
    EXPECT_EQ(std::count(said.err.begin(), said.err.end(), '\n'), 1) << said.err;
  }
}

}  // namespace
}  // namespace plumbline::cluster_commands_test
