// Real runs next to a program that keeps the processors busy: steps, probes and neighbours in the record.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "core/run/processors.hpp"
#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::disturbance_test {
namespace {

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

class Disturbance : public ProgramFolder {
 protected:
  Disturbance() {
    write("run.yaml",
          "model: {model_type: llama, num_hidden_layers: 4, hidden_size: 128, num_attention_heads: 4,\n"
          "        num_key_value_heads: 2, intermediate_size: 384, vocab_size: 1024, "
          "max_position_embeddings: 256,\n"
          "        rms_norm_eps: 1.0e-6}\n"
          "seq_length: 128\nglobal_batch_size: 32\nprecision: fp32\nsteps: 3\nwarmup_steps: 1\n"
          "hardware: " PLUMBLINE_SOURCE_DIR "/results/recorded/xeon-2-cores/profile.json\n");
  }

  json run(const std::string& arguments) const {
    const Said said = plumbline(arguments);
    EXPECT_EQ(said.exit_code, 0) << arguments << "\n" << said.err;
    return json::parse(said.out, nullptr, false);
  }
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
  const Said said = plumbline("calibrate --noise --minutes 0.1 --out noise.csv --quiet");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  const std::string csv = read("noise.csv");
  EXPECT_GE(std::count(csv.begin(), csv.end(), '\n'), 2);
  EXPECT_NE(said.out.find("gemm_alone_s"), std::string::npos) << said.out;
}

}  // namespace
}  // namespace plumbline::disturbance_test
