// Configurations that the memory of this host has no room for are refused before any rank is started.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::host_memory_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class HostMemoryOfCommands : public ProgramFolder {
 protected:
  HostMemoryOfCommands() {
    write_model("small.json", 64);
    write_model("huge.json", 65536);  // more than 50 TiB
  }
  void write_model(const std::string& name, int hidden) const {
    write(name, fmt::format(R"({{"model_type": "qwen2", "num_hidden_layers": 64, "hidden_size": {},
      "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": {}, "vocab_size": 128,
      "max_position_embeddings": 64, "rms_norm_eps": 1.0e-6, "tie_word_embeddings": true}})",
                            hidden, 4 * hidden));
  }
  void write_config(const std::string& name, const std::string& rest) const {
    write(name, "seq_length: 16\nglobal_batch_size: 2\nprecision: fp32\nsteps: 1\n" + rest + "\n");
  }
};

TEST_F(HostMemoryOfCommands, ARunIsRefusedWithBothFigures) {
  write_config("run.yaml", "model: huge.json\npipeline_model_parallel_size: 2");
  const std::string huge = "run.yaml ";
  const Said refused = plumbline("run " + huge);
  EXPECT_EQ(refused.exit_code, 3) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("host memory: found "), HasSubstr(" GiB available, expected "),
                                 HasSubstr("GiB for the 2 ranks of this host")));
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(plumbline("run " + huge + "--memory-budget 1KiB").exit_code, 3);
  EXPECT_THAT(read("err.txt"), HasSubstr("memory_budget: found"));
  EXPECT_EQ(plumbline("predict " + huge).exit_code, 0) << read("err.txt");
  EXPECT_EQ(plumbline("run " + huge +
                      "--backend emulated --hardware h100-sxm-80gb --memory-budget 1000000GiB "
                      "--emulated-time-factor 0")
                .exit_code,
            0)
      << read("err.txt");
}

TEST_F(HostMemoryOfCommands, ACellIsUnsupportedAndTheNextOneFollows) {
  write_config("matrix.yaml", "matrix: {model: [huge.json, small.json]}");
  const Said said = plumbline("matrix matrix.yaml --out out --quiet");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  std::istringstream lines(read("out/results.jsonl"));
  std::vector<std::string> statuses;
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    statuses.push_back(record["status"]);
    if (statuses.back() == "unsupported") {
      EXPECT_THAT(std::string(record["reason"]), HasSubstr("host memory: found "));
      EXPECT_FALSE(record["prediction"].is_null());
      EXPECT_TRUE(record["measurement"].is_null());
    }
  }
  EXPECT_THAT(statuses, testing::ElementsAre("unsupported", "ok"));
}

}  // namespace
}  // namespace plumbline::host_memory_test
