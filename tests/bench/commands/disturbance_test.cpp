// Real runs next to a program that keeps the processors busy: what the record says of steps, probes and neighbours.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/run/processors.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Keeps every processor of the machine busy while it lives.
class Neighbour {
 public:
  Neighbour() {
    for (int i = 0; i < machine_processors(); ++i) {
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) ++spins_;
      });
    }
  }
  ~Neighbour() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::int64_t> spins_{0};
  std::vector<std::thread> threads_;
};

class Disturbance : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "plumbline-disturbance-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    std::ofstream(folder_ / "run.yaml")
        << "model: {model_type: llama, num_hidden_layers: 4, hidden_size: 128, num_attention_heads: 4,\n"
           "        num_key_value_heads: 2, intermediate_size: 384, vocab_size: 1024, "
           "max_position_embeddings: 256,\n"
           "        rms_norm_eps: 1.0e-6}\n"
           "seq_length: 128\nglobal_batch_size: 32\nprecision: fp32\nsteps: 3\nwarmup_steps: 1\n"
        << "hardware: " << PLUMBLINE_SOURCE_DIR << "/results/recorded/xeon-2-cores/profile.json\n";
  }
  void TearDown() override { fs::remove_all(folder_); }

  json run(const std::string& arguments) {
    const std::string command = fmt::format("cd {0} && HOME={0} XDG_CACHE_HOME= {1} {2} >out.txt 2>err.txt",
                                            folder_.string(), PLUMBLINE_PROGRAM, arguments);
    const int status = std::system(command.c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << arguments;
    std::ifstream in(folder_ / "out.txt");
    return json::parse(in, nullptr, false);
  }

  fs::path folder_;
};

TEST_F(Disturbance, ARecordHasEveryStepAndThePredictionAtProbedSpeed) {
  const json record = run("run run.yaml --tp 2 --json --quiet");
  const json& measurement = record.at("measurement");
  ASSERT_EQ(measurement.at("steps").size(), 3U);
  for (const json& step : measurement["steps"]) {
    EXPECT_GT(step.at("step_s").get<double>(), 0);
    EXPECT_GE(step.at("involuntary_switches").get<double>(), 0);
  }
  EXPECT_LE(measurement.at("step_interval_s")[0].get<double>(), measurement["time"]["step_s"].get<double>());
  EXPECT_GE(measurement.at("step_interval_s")[1].get<double>(), measurement["time"]["step_s"].get<double>());
  for (const char* key : {"before", "after", "speed"}) {
    for (const char* kind : {"compute", "memory", "messages", "host"})
      EXPECT_GT(record.at("probed").at(key).at(kind).get<double>(), 0) << key << " " << kind;
  }
  const double probed = record["probed"]["time"]["step_s"];
  EXPECT_NEAR(record["error"]["probed_step_time"].get<double>(),
              probed / measurement["time"]["step_s"].get<double>() - 1, 1e-9);
}

TEST_F(Disturbance, ACellNextToABusyNeighbourIsMeasuredAgainAndMarked) {
  const Neighbour neighbour;
  const json records = run("matrix run.yaml --json --quiet --out results");
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].at("status"), "ok");
  const json& disturbance = records[0].at("measurement").at("disturbance");
  EXPECT_TRUE(disturbance.at("disturbed").get<bool>()) << disturbance.dump();
  EXPECT_EQ(disturbance.at("repeats"), 2);
}

TEST_F(Disturbance, NoiseLooksEverySecond) {
  const std::string command =
      fmt::format("cd {0} && HOME={0} {1} noise --minutes 0.1 --out noise.csv --quiet >out.txt",
                  folder_.string(), PLUMBLINE_PROGRAM);
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ifstream csv(folder_ / "noise.csv");
  int lines = 0;
  for (std::string line; std::getline(csv, line);) ++lines;
  EXPECT_GE(lines, 2);
  std::ifstream out(folder_ / "out.txt");
  const std::string summary{std::istreambuf_iterator<char>(out), {}};
  EXPECT_NE(summary.find("gemm_alone_s"), std::string::npos) << summary;
}

}  // namespace
}  // namespace plumbline
