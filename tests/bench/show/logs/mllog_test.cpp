// Records as curves and as MLPerf's log lines.
#include "bench/show/logs/mllog.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/show/logs/record_scalars.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline::mllog_test {
namespace {

using nlohmann::json;

/// One warm-up step, and three timed ones of 0.5, 0.45 and 0.6 s.
Record four_steps() {
  Record record = sample_record("a");
  record.config.emplace_back("warmup_steps", "1");
  record.config.emplace_back("global_batch_size", "8");
  record.measurement->rounds = 1;
  record.measurement->losses = {9, 8, 7, 6};
  return record;
}

std::vector<json> lines_of(const std::string& log) {
  constexpr std::string_view kToken = ":::MLLOG ";
  std::vector<json> lines;
  std::istringstream text(log);
  for (std::string line; std::getline(text, line);) {
    EXPECT_TRUE(line.starts_with(kToken)) << line;
    lines.push_back(json::parse(line.substr(kToken.size())));
    for (const char* key : {"namespace", "time_ms", "event_type", "key", "value", "metadata"})
      EXPECT_TRUE(lines.back().contains(key)) << line;
  }
  return lines;
}

/// The lines of a key.
std::vector<json> with_key(const std::vector<json>& lines, const std::string& key) {
  std::vector<json> found;
  for (const json& line : lines)
    if (line["key"] == key) found.push_back(line);
  return found;
}

TEST(StepClock, LaysTimedStepsBeforeTheEnd) {
  const StepClock clock(four_steps(), 100);
  EXPECT_EQ(clock.steps(), 4);
  EXPECT_EQ(clock.first_timed(), 2);
  EXPECT_DOUBLE_EQ(clock.start_unix_s(), 100 - 1.55);
  EXPECT_DOUBLE_EQ(clock.unix_s(1), 100 - 1.55);
  EXPECT_DOUBLE_EQ(clock.unix_s(2), 100 - 1.05);
  EXPECT_DOUBLE_EQ(clock.unix_s(4), 100);
  EXPECT_FALSE(clock.seconds(1));
  EXPECT_EQ(clock.seconds(3), 0.45);  // not the difference of two Unix times
  EXPECT_FALSE(clock.seconds(5));
}

TEST(StepClock, CountsTheStepsOfAllRoundsAndOfNone) {
  Record rounds = four_steps();
  rounds.measurement->rounds = 3;
  rounds.measurement->losses = {9, 8};
  EXPECT_EQ(StepClock(rounds, 0).steps(), 4);
  EXPECT_EQ(StepClock(rounds, 0).first_timed(), 2);
  Record unmeasured = four_steps();
  unmeasured.measurement.reset();
  EXPECT_EQ(StepClock(unmeasured, 7).steps(), 0);
  EXPECT_EQ(StepClock(unmeasured, 7).unix_s(1), 7);
}

TEST(RecordScalars, AreCurvesOfStepsAndFiguresOfTheRun) {
  Record record = four_steps();
  record.measurement->losses[3] = std::nan("");
  const RecordScalars scalars = scalars_of(record, 100);
  const auto steps_of = [](const std::vector<Scalar>& list, const std::string& tag) {
    std::vector<std::int64_t> steps;
    for (const Scalar& scalar : list) {
      EXPECT_TRUE(std::isfinite(scalar.value)) << tag;
      if (scalar.tag == tag) steps.push_back(scalar.step);
    }
    return steps;
  };
  EXPECT_THAT(steps_of(scalars.measured, "loss"), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(steps_of(scalars.measured, "time/step_s"), testing::ElementsAre(2, 3, 4));
  EXPECT_THAT(steps_of(scalars.predicted, "time/step_s"), testing::ElementsAre(2, 4));
  EXPECT_THAT(steps_of(scalars.measured, "memory/peak_bytes"), testing::ElementsAre(4));
  EXPECT_THAT(steps_of(scalars.measured, "energy/step_j"), testing::ElementsAre(4));
  EXPECT_THAT(steps_of(scalars.predicted, "energy/step_j"), testing::ElementsAre());
}

TEST(Mllog, HasParametersStepsAndFigures) {
  const std::vector<json> lines = lines_of(mllog_lines(four_steps(), 100));
  EXPECT_EQ(with_key(lines, "tensor_parallelism").at(0)["value"], 2);
  EXPECT_EQ(with_key(lines, "opt_base_learning_rate").at(0)["value"], 0.0001);
  EXPECT_EQ(with_key(lines, "max_steps").at(0)["value"], 4);
  const json start = with_key(lines, "run_start").at(0);
  EXPECT_EQ(start["event_type"], "INTERVAL_START");
  EXPECT_EQ(start["time_ms"], 98450);
  const json stop = with_key(lines, "run_stop").at(0);
  EXPECT_EQ(stop["event_type"], "INTERVAL_END");
  EXPECT_EQ(stop["metadata"]["status"], "success");
  const std::vector<json> steps = with_key(lines, "tracked_stats");
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[0]["value"], json({{"loss", 9.0}}));  // warm-up: not timed
  EXPECT_EQ(steps[1]["value"]["throughput"], 16);
  EXPECT_EQ(steps[3]["metadata"]["samples_count"], 32);
  const json step = with_key(lines, "time/step_s").at(0);
  EXPECT_EQ(step["namespace"], "plumbline");
  EXPECT_EQ(step["value"], 0.5);
  EXPECT_EQ(step["metadata"]["predicted"], 0.55);
  EXPECT_TRUE(with_key(lines, "energy/step_j").at(0)["metadata"]["predicted"].is_null());
  for (std::size_t i = 1; i < lines.size(); ++i)
    EXPECT_GE(lines[i]["time_ms"].get<std::int64_t>(), lines[i - 1]["time_ms"].get<std::int64_t>());
}

TEST(Mllog, SaysThatARunWasAborted) {
  Record record = four_steps();
  record.status = Status::oom;
  record.measurement.reset();
  const std::vector<json> lines = lines_of(mllog_lines(record, 100));
  EXPECT_EQ(with_key(lines, "run_stop").at(0)["metadata"]["status"], "aborted");
  EXPECT_TRUE(with_key(lines, "tracked_stats").empty());
  EXPECT_TRUE(with_key(lines, "time/step_s").at(0)["value"].is_null());
}

}  // namespace
}  // namespace plumbline::mllog_test
