// Records: the round trip through JSON, and hostile lines.
#include "bench/record/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "core/base/error.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline::record_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Rows that stand for several ranks; a row of a single rank does not mention it.
TEST(Record, RanksThatAreAlikeShareARow) {
  Record record = sample_record("a");
  EXPECT_EQ(to_line(record).find("ranks_alike"), std::string::npos);
  record.prediction->memory.ranks.resize(1);
  record.prediction->memory.ranks[0].ranks_alike = 8192;
  const Record back = parse_record(to_line(record), "here");
  ASSERT_EQ(back.prediction->memory.ranks.size(), 1U);
  EXPECT_EQ(back.prediction->memory.ranks[0].ranks_alike, 8192);
  EXPECT_EQ(back.prediction->memory.row_of(8191), &back.prediction->memory.ranks[0]);
  EXPECT_EQ(back.prediction->memory.row_of(8192), nullptr);
}

TEST(Record, ComesBackFromJsonAsItWas) {
  const Record record = sample_record("a");
  const std::string line = to_line(record);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Record back = parse_record(line, "here");
  EXPECT_EQ(to_line(back), line);
  EXPECT_EQ(back.config, record.config);
  EXPECT_EQ(back.measurement->memory.ranks[1].bytes.total().value, 36'000'000);
  EXPECT_EQ(back.measurement->memory.ranks[1].at, "1F7");
  EXPECT_EQ(back.measurement->memory.ranks[1].holders.at(0).holder, "qkv");
  EXPECT_EQ(back.measurement->traffic->of(Group::data).reduce_scattered.value, 4000);
  EXPECT_EQ(back.prediction->traffic->messages_sent, 16);
  EXPECT_NEAR(back.error->step_time, 0.1, 1e-12);
  EXPECT_NEAR(back.error->peak_memory, 0.01, 1e-12);
  EXPECT_NEAR(back.error->bubble_fraction, 0.03, 1e-12);
  EXPECT_NEAR(back.error->probed_step_time, 0.04, 1e-12);
  EXPECT_EQ(back.probed->speed, record.probed->speed);
  EXPECT_EQ(back.probed->time.step.value, 0.52);
  ASSERT_EQ(back.measurement->steps.size(), 3U);
  EXPECT_EQ(back.measurement->steps[0].others, 0.02);
  EXPECT_EQ(back.measurement->steps[0].frequency, 2.6e9);
  EXPECT_TRUE(std::isnan(back.measurement->steps[1].others));
  EXPECT_EQ(back.measurement->disturbance.repeats, 1);
  EXPECT_EQ(back.measurement->rounds, 2);
  EXPECT_EQ(back.prediction->step_interval->high.value, 0.6);
  EXPECT_EQ(back.prediction->comparable_step->low.value, 0.45);
}

TEST(Record, HasTheKeysThatScriptsRelyOn) {
  const OrderedJson json = to_json(sample_record("a"));
  std::istringstream pointers(R"(
      /schema /id /config/model /machine/host /machine/cpu /machine/gpu /machine/versions/plumbline
      /machine/environment/OMP_NUM_THREADS /status /reason /model/parameters /model/active_parameters
      /model/mtp_parameters /model/flops_per_token /prediction/fits /prediction/memory/peak_bytes
      /prediction/memory/peak_rank /prediction/memory/ranks/0/rank /prediction/memory/ranks/0/pipeline_rank
      /prediction/memory/ranks/0/parameters_bytes /prediction/memory/ranks/0/gradients_bytes
      /prediction/memory/ranks/0/optimizer_bytes /prediction/memory/ranks/0/activations_bytes
      /prediction/memory/ranks/0/logits_bytes /prediction/memory/ranks/0/teacher_bytes
      /prediction/memory/ranks/0/communication_bytes /prediction/memory/ranks/0/workspace_bytes
      /prediction/memory/ranks/0/total_bytes /prediction/time/step_s /prediction/time/bubble_ratio
      /prediction/time/bubble_fraction /prediction/time/compute_s /prediction/time/exposed_tensor_s
      /prediction/time/exposed_pipeline_s /prediction/time/exposed_data_s /prediction/time/optimizer_s
      /prediction/throughput/tokens_per_s /prediction/throughput/tokens_per_s_per_gpu
      /prediction/throughput/model_tflops_per_gpu /prediction/throughput/mfu /prediction/throughput/hfu
      /prediction/throughput/peak_tflops /measurement/time/step_s /measurement/samples
      /measurement/step_s_min /measurement/step_s_max /measurement/loss /measurement/device_reserved_bytes
      /error/peak_memory /error/step_time /error/bubble_fraction)");
  for (std::string pointer; pointers >> pointer;) {
    EXPECT_TRUE(json.contains(OrderedJson::json_pointer(pointer))) << pointer;
  }
  EXPECT_TRUE(json["config"]["tensor_model_parallel_size"].is_number_integer());
  EXPECT_TRUE(json["config"]["sequence_parallel"].is_boolean());
}

TEST(Record, OfBeforeThereWereProbesIsRead) {
  OrderedJson old = to_json(sample_record("a"));
  old.erase("probed");
  old["error"].erase("probed_step_time");
  old["error"].erase("probed_bubble_fraction");
  old["prediction"].erase("step_interval_s");
  old["prediction"].erase("comparable_step_s");
  for (const char* key : {"steps", "step_interval_s", "disturbance", "computing", "rounds"})
    old["measurement"].erase(key);
  const Record record = parse_record(old.dump(), "old");
  EXPECT_FALSE(record.probed || record.prediction->step_interval || record.disturbed());
  EXPECT_TRUE(record.measurement->steps.empty());
  EXPECT_EQ(record.measurement->rounds, 1);
  EXPECT_NEAR(record.error->judged_step_time(), 0.1, 1e-12);
}

// Written before the speed of memory was a class of its own.
TEST(Record, ProbesWithoutBandwidthStayReadable) {
  OrderedJson old = to_json(sample_record("a"));
  for (const char* part : {"before", "after", "speed"}) old["probed"][part].erase("bandwidth");
  const Record record = parse_record(old.dump(), "here");
  ASSERT_TRUE(record.probed);
  EXPECT_EQ(record.probed->speed.bandwidth, record.probed->speed.memory);
}

TEST(Record, MayLackFiguresAndLoss) {
  Record record;
  record.id = "b";
  record.status = Status::invalid;
  record.reason = "line\nend and a bad byte \xff";
  const Record back = parse_record(to_line(record), "here");
  EXPECT_EQ(back.status, Status::invalid);
  EXPECT_FALSE(back.prediction || back.measurement || back.error);
  record = sample_record("c");
  record.measurement->loss = NAN;
  record.measurement->time = {{NAN}, NAN, NAN, {NAN}, {NAN}, {NAN}, {NAN}, {}, {NAN}};
  record.measurement->throughput = {NAN, NAN, NAN, NAN, 0.5, NAN};
  record.measurement->step_min = record.measurement->step_max = {NAN};
  record.measurement->traffic.reset();
  record.error = compare(*record.prediction, *record.measurement);
  EXPECT_NEAR(record.error->peak_memory, 0.01, 1e-12);
  const Record without_times = parse_record(to_line(record), "here");
  EXPECT_EQ(to_line(without_times), to_line(record));
  EXPECT_TRUE(std::isnan(without_times.measurement->time.bubble_fraction));
  EXPECT_TRUE(std::isnan(without_times.error->step_time));
  EXPECT_TRUE(std::isnan(parse_record(to_line(record), "here").measurement->loss));
}

TEST(Record, RefusesWhatIsNoRecord) {
  struct Change {
    const char* pointer;
    OrderedJson value;
    const char* complaint;
  };
  const Change kChanges[] = {
      {"/schema", 2, "schema: found 2, this program reads 1"},
      {"/schema", "1", "schema"},
      {"/id", 7, "id: found 7, expected a text"},
      {"/status", "fine", "status: found \"fine\""},
      {"/config", "x", "config: found \"x\", expected a JSON object"},
      {"/config/model", OrderedJson::array(), "config.model: found [], expected a plain value"},
      {"/prediction/fits", 1, "prediction.fits: found 1, expected true or false"},
      {"/prediction/memory/peak_bytes", -1,
       "prediction.memory.peak_bytes: found -1, expected a whole number"},
      {"/prediction/memory/peak_bytes", 1.5, "peak_bytes"},
      {"/prediction/memory/peak_bytes", 18446744073709551615ULL, "peak_bytes"},
      {"/prediction/memory/ranks", 3, "prediction.memory.ranks: found 3, expected a list"},
      {"/prediction/memory/ranks/0", 3, "prediction.memory.ranks[0]: found 3, expected a JSON object"},
      {"/prediction/memory/ranks/0/rank", 1e300, "rank"},
      {"/prediction/time/step_s", -0.5, "time.step_s: found -0.5, expected a number that is not negative"},
      {"/prediction/time/step_s", nullptr, "time.step_s: missing; expected a number"},
      {"/measurement/memory/ranks/1/holders", 3, "memory.ranks[1].holders: found 3, expected a list"},
      {"/measurement/memory/ranks/1/holders/0/category", "love",
       "holders[0].category: found \"love\", expected a category of memory"},
      {"/measurement/memory/ranks/1/at", 7, "ranks[1].at: found 7, expected a text"},
      {"/measurement/traffic/groups/data/calls", -3,
       "measurement.traffic.groups.data.calls: found -3, expected a whole number"},
      {"/prediction/traffic/groups", 1, "prediction.traffic.groups: found 1, expected a JSON object"},
      {"/measurement/loss", "nan", "loss: found \"nan\", expected a number"},
      {"/measurement/throughput", nullptr, "measurement.throughput: missing; expected a JSON object"},
  };
  for (const Change& change : kChanges) {
    OrderedJson json = to_json(sample_record("a"));
    json[OrderedJson::json_pointer(change.pointer)] = change.value;
    EXPECT_THAT([&] { parse_record(json.dump(), "here"); },
                ThrowsMessage<InputError>(::testing::AllOf(HasSubstr("here"), HasSubstr(change.complaint))))
        << change.pointer;
  }
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string(100'000, '['),
        std::string("{\"a\":") + std::string(1000, '{'), std::string("\xff\xfe"),
        std::string("{\"schema\":1e999}"), to_line(sample_record("a")).substr(0, 500)}) {
    EXPECT_THROW(parse_record(text, "here"), InputError) << text.substr(0, 40);
  }
}

}  // namespace
}  // namespace plumbline::record_test
