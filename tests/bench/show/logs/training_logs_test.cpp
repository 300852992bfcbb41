// Options --mllog and --tensorboard of `run` and `matrix`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::training_logs_test {
namespace {

using testing::HasSubstr;

constexpr const char* kEvents = "events.out.tfevents.0000000000.plumbline";

class TrainingLogs : public ProgramFolder {};

TEST_F(TrainingLogs, AreWrittenByARunWhoseRecordNamesItsEnergy) {
  write("run.yaml", kSmallRun);
  const auto record = json_of("run run.yaml --steps 3 --json --mllog run.log --tensorboard events");
  EXPECT_THAT(read("run.log"),
              HasSubstr("\"key\":\"run_stop\",\"value\":null,\"metadata\":{\"status\":\"success\"}"));
  EXPECT_THAT(read("run.log"), HasSubstr("\"metadata\":{\"step_num\":4,"));  // one step of warm-up
  EXPECT_THAT(read("events/measured/" + std::string(kEvents)), HasSubstr("loss"));
  EXPECT_THAT(read("events/predicted/" + std::string(kEvents)), HasSubstr("time/step_s"));
  const auto& energy = record["measurement"]["energy"];
  const bool counted = !energy["processors_w"].is_null();
  EXPECT_EQ(energy["step_j"].is_null(), !counted);
  EXPECT_EQ(energy["unavailable"].size(), counted ? 0U : 1U);
  if (!counted) {
    EXPECT_THAT(energy["unavailable"][0].get<std::string>(), HasSubstr("processors: /sys/class/powercap"));
  }
}

TEST_F(TrainingLogs, AreWrittenForEveryCellOfAMatrix) {
  write("matrix.yaml", std::string(kSmallRun) + "matrix: {micro_batch_size: [1, 2, 3]}\n");
  const std::string command = "matrix matrix.yaml --predict-only --json --mllog logs --tensorboard events";
  for (int again = 0; again < 2; ++again) {  // files of the first time are replaced
    for (const auto& record : json_of(command)) {
      const std::string id = record["id"];
      const bool valid = record["status"] == "ok";
      EXPECT_THAT(read("logs/" + id + ".log"), HasSubstr(valid ? "\"success\"" : "\"aborted\""));
      EXPECT_EQ(std::filesystem::exists(at("events/" + id + "/predicted/" + kEvents)), valid);
      EXPECT_FALSE(std::filesystem::exists(at("events/" + id + "/measured")));
    }
  }
}

TEST_F(TrainingLogs, AreWrittenAsSoonAsTheirCellIsMeasured) {
  write("matrix.yaml", std::string(kSmallRun) + "matrix: {micro_batch_size: [1, 2]}\n");
  const auto records = json_of("matrix matrix.yaml --steps 2 --out results --json --mllog logs");
  ASSERT_EQ(records.size(), 2U);
  const auto changed = [&](const std::string& file) { return std::filesystem::last_write_time(at(file)); };
  const auto log_of = [&](int i) { return changed("logs/" + records[i]["id"].get<std::string>() + ".log"); };
  EXPECT_LT(log_of(0), changed("results/results.jsonl"));
  EXPECT_GE(log_of(1), changed("results/results.jsonl"));
}

TEST_F(TrainingLogs, OfOneCellThatCannotBeWrittenCostNoOther) {
  write("matrix.yaml", std::string(kSmallRun) + "matrix: {micro_batch_size: [1, 2]}\n");
  const std::string command = "matrix matrix.yaml --predict-only --out results --json";
  const auto records = json_of(command);
  std::filesystem::remove_all(at("results"));
  const std::string first = records[0]["id"], second = records[1]["id"];
  std::filesystem::create_directories(at("logs/" + first + ".log"));
  const Said said = plumbline(command + " --mllog logs");
  EXPECT_NE(said.exit_code, 0);
  EXPECT_THAT(said.err, HasSubstr(first + ".log"));
  EXPECT_THAT(said.out, HasSubstr(second));
  EXPECT_THAT(read("results/predictions.jsonl"), HasSubstr(second));
  EXPECT_THAT(read("logs/" + second + ".log"), HasSubstr("\"success\""));
}

TEST_F(TrainingLogs, AreRefusedBeforeARunWhereTheyCannotBe) {
  write("run.yaml", kSmallRun);
  write("rl.yaml", std::string(kSmallRun) + "task: grpo\n");
  const std::pair<const char*, const char*> cases[] = {
      {"run run.yaml --mllog missing/run.log", "--mllog"},
      {"run run.yaml --tensorboard missing/events", "--tensorboard"},
      {"matrix run.yaml --predict-only --mllog run.yaml", "--mllog"},
  };
  for (const auto& [arguments, option] : cases) {
    const Said said = plumbline(arguments);
    EXPECT_EQ(said.exit_code, 4) << arguments << said.err;
    EXPECT_THAT(said.err, HasSubstr(option)) << arguments;
    EXPECT_EQ(said.out, "") << arguments;
  }
  const Said phases = plumbline("run rl.yaml --mllog run.log");
  EXPECT_EQ(phases.exit_code, 2);
  EXPECT_THAT(phases.err, HasSubstr("--mllog, --tensorboard: found with a task of reinforcement learning"));
}

}  // namespace
}  // namespace plumbline::training_logs_test
