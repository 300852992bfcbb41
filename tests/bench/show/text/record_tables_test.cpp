// Tables, CSV, JSON and the summary of records.
#include "bench/show/text/record_tables.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "bench/show/text/csv.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline::record_tables_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// As they were before there were probes.
std::vector<Record> three_records() {
  std::vector<Record> records = {sample_record("a"), sample_record("b"), sample_record("c")};
  for (Record& record : records) {
    record.probed.reset();
    record.error = compare(*record.prediction, *record.measurement);
  }
  records[1].config[1].second = "1";
  records[1].measurement->time.step = {0.4};
  records[1].error = compare(*records[1].prediction, *records[1].measurement);
  records[2].config[4].second = "true";
  records[2].status = Status::oom;
  records[2].reason = "rank 1: no room, \"really\"\nsecond line";
  records[2].measurement.reset();
  records[2].error.reset();
  return records;
}

std::string json_array_of(const std::vector<Record>& records) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  write_json_array(out, records);
  std::fclose(out);
  std::string written(text, size);
  std::free(text);
  return written;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Table, PutsPredictedNextToMeasured) {
  const auto lines = lines_of(to_table(three_records(), {}));
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[0],
            "                                        peak memory, MiB               step time, ms            "
            "bubble "
            "fraction, idle/step     measured");
  EXPECT_EQ(lines[1],
            "#  tp  pp  dp  sequence_parallel  predicted  measured  error %  predicted  measured  error %  "
            "predicted  measured  difference  tokens/s  status");
  EXPECT_EQ(
      lines[2],
      "1   2   1   1              false      34.68     34.33    +1.00      550.0     500.0    +10.0      "
      "0.230     0.200      +0.030      1000  ok");
  EXPECT_EQ(
      lines[4],
      "3   2   1   1               true      34.68         -        -      550.0         -        -      "
      "0.230         -           -         -  oom");
  EXPECT_EQ(lines[5], "step time and bubble: predicted (calibrated)");
  EXPECT_EQ(lines[6], "#3 oom: rank 1: no room, \"really\"?second line");
}

TEST(Table, ShortensAbsolutePaths) {
  for (const auto& [value, shown] :
       {std::pair("/home/me/runs/profile.json", "\xe2\x80\xa6/runs/profile.json"),
        std::pair("/profile.json", "/profile.json"), std::pair("a/b/c", "a/b/c")}) {
    Record record = sample_record("a");
    record.config = {{"hardware", value}};
    EXPECT_EQ(value_of(record, "hardware"), shown);
  }
}

TEST(Table, ShowsSpeedUpsOverTheBaseline) {
  std::vector<Record> records = three_records();
  for (Record& record : records) record.baseline = BaselineReport{"a"};
  EXPECT_THAT(to_table(records, {}), Not(HasSubstr("speed-up")));
  records[2].prediction->time.step = {0.275};
  set_speedups(records);
  const std::string table = to_table(records, {});
  EXPECT_THAT(table, HasSubstr("speed-up over the baseline"));
  EXPECT_DOUBLE_EQ(records[1].baseline->measured, 1.25);
  EXPECT_DOUBLE_EQ(records[2].baseline->predicted, 2);
  EXPECT_TRUE(std::isnan(records[2].baseline->measured));
  EXPECT_THAT(lines_of(table)[3], HasSubstr(" 1.250 "));
  EXPECT_THAT(to_csv(records), HasSubstr(",predicted_speed_up,measured_speed_up,"));
  EXPECT_EQ(parse_record(to_line(records[1]), "line").baseline->id, "a");
}

TEST(Table, SaysWhatExpertsDrop) {
  Record record = sample_record("a");
  EXPECT_THAT(to_table({record}, {}), testing::Not(HasSubstr("dropped")));
  record.measurement->expert_load = {{1, {30, 10, 0}, {12, 0, 0}}, {2, {20, 10, 10}, {0, 0, 0}}};
  record.prediction->expert_load = {{1, {20, 20, 0}, {2, 2, 0}}};
  const auto lines = lines_of(to_table({record}, {}));
  EXPECT_THAT(lines[0], HasSubstr("dropped tokens, %"));
  EXPECT_THAT(lines[2], HasSubstr("10.00     15.00"));
}

// The model is judged by its error at the speed that the machine had.
TEST(Table, ShowsProbedTimesAndMarksWhatWasDisturbed) {
  std::vector<Record> records = {sample_record("a"), sample_record("b")};
  records[1].measurement->disturbance = {0.31, 0, 0.01, true, 2};
  const auto lines = lines_of(to_table(records, {}));
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_THAT(lines[2], HasSubstr("520.0     500.0     +4.0"));
  EXPECT_THAT(lines[2], testing::EndsWith("ok"));
  EXPECT_THAT(lines[3], testing::EndsWith("ok, disturbed"));
  EXPECT_EQ(lines[5], "#2 disturbed: other programs used 31 % of the processors");
}

TEST(Table, ShowsFewerColumnsOnANarrowTerminal) {
  for (int width : {150, 120, 100, 80, 60, 40, 1}) {
    const auto lines = lines_of(to_table(three_records(), {width, false}));
    const bool labels = lines[1].starts_with('#');
    const std::string& titles = lines[labels ? 1 : 0];
    EXPECT_THAT(titles, HasSubstr("status"));
    EXPECT_THAT(titles, HasSubstr("tp"));
    if (width < 40) continue;
    for (int line = 0; line < (labels ? 5 : 4); ++line)
      EXPECT_LE(lines[static_cast<std::size_t>(line)].size(), static_cast<std::size_t>(width));
  }
  EXPECT_THAT(to_table(three_records(), {100, false}), HasSubstr("step time, ms"));
}

TEST(Table, UsesColorsOnlyWhenAsked) {
  EXPECT_THAT(to_table(three_records(), {0, false}), Not(HasSubstr("\033")));
  EXPECT_THAT(to_table(three_records(), {0, true}), HasSubstr("\033[32mok\033[0m"));
}

TEST(Table, TakesNoRecords) {
  EXPECT_EQ(to_table({}, {}), "no records\n");
  EXPECT_EQ(json_array_of({}), "[]\n");
  EXPECT_EQ(to_line(summarize({})), "0 cells");
}

TEST(Csv, QuotesAndKeepsItsShape) {
  const std::string csv = to_csv(three_records());
  EXPECT_THAT(csv, HasSubstr("\"rank 1: no room, \"\"really\"\"\nsecond line\""));
  const std::string header = csv.substr(0, csv.find("\r\n"));
  EXPECT_THAT(header, HasSubstr("id,model,tensor_model_parallel_size"));
  EXPECT_THAT(header, HasSubstr(",predicted_step_s,"));
  const std::string first =
      csv.substr(header.size() + 2, csv.find("\r\n", header.size() + 2) - header.size() - 2);
  EXPECT_EQ(std::count(first.begin(), first.end(), ','), std::count(header.begin(), header.end(), ','));
  EXPECT_THAT(first, HasSubstr("a,qwen2.5-0.5b,2,1,1,false,0.0001,ok,,36360000,0,0.55,"));
  EXPECT_THAT(header, HasSubstr(",measured_hfu,measured_device_bytes,"));
  EXPECT_THAT(first, HasSubstr(",0.25,40432100,"));
}

TEST(Csv, ASpreadsheetComputesNothingOfIt) {
  for (const char* number : {"-1", "-1.5e3", "+0.25", "0", "", "tp2_pp1", "-inf"})
    EXPECT_EQ(csv_field(number), number);
  EXPECT_EQ(csv_field("=1+1"), "'=1+1");
  EXPECT_EQ(csv_field("@SUM(A1)"), "'@SUM(A1)");
  EXPECT_EQ(csv_field("-2+3"), "'-2+3");
  EXPECT_EQ(csv_field("+cmd|' /C calc'!A0"), "'+cmd|' /C calc'!A0");
  EXPECT_EQ(csv_field("\tx"), "'\tx");
  EXPECT_EQ(csv_field("=HYPERLINK(\"x\",1)"), "\"'=HYPERLINK(\"\"x\"\",1)\"");
  std::vector<Record> records = {sample_record("=evil()")};
  EXPECT_THAT(to_csv(records), HasSubstr("\r\n'=evil(),"));
}

TEST(JsonArray, HoldsTheRecords) {
  const auto json = OrderedJson::parse(json_array_of(three_records()));
  ASSERT_EQ(json.size(), 3U);
  EXPECT_EQ(json[1]["id"], "b");
}

TEST(Summary, GivesMedianAndWorstErrors) {
  const Summary summary = summarize(three_records());
  EXPECT_EQ(summary.cells, 3);
  EXPECT_NEAR(summary.step_time->worst, 0.375, 1e-12);
  EXPECT_NEAR(summary.step_time->median, (0.375 + 0.1) / 2, 1e-12);
  EXPECT_EQ(to_line(summary),
            "3 cells: 2 ok, 1 oom; |error| median/worst: memory 1.00/1.00 %, step time 23.8/37.5 % "
            "(calibrated), bubble "
            "0.030/0.030");
  std::vector<Record> guessed = three_records();
  guessed.front().prediction->times_guessed = true;
  EXPECT_THAT(to_line(summarize(guessed)),
              testing::HasSubstr("step time 23.8/37.5 % (calibrated, guess), bubble"));
  std::vector<Record> estimated = three_records();
  for (Record& record : estimated) {
    if (record.prediction) record.prediction->times_estimated = true;
  }
  const char* constants = "23.8/37.5 % (accelerator's constants), bubble";
  EXPECT_THAT(to_line(summarize(estimated)), testing::HasSubstr(constants));
  estimated.front().prediction->times_estimated = false;
  EXPECT_THAT(to_line(summarize(estimated)),
              testing::HasSubstr("23.8/37.5 % (calibrated, accelerator's constants), bubble"));
}

TEST(Summary, DisturbedCellsAreCountedAndDoNotJudge) {
  std::vector<Record> records = {sample_record("a"), sample_record("b")};
  records[1].measurement->time.step = {5};
  records[1].measurement->disturbance.disturbed = true;
  records[1].error = compare(*records[1].prediction, *records[1].measurement, records[1].probed);
  EXPECT_EQ(to_line(summarize(records)),
            "2 cells: 2 ok, 1 of them disturbed; |error| median/worst: memory 1.00/1.00 %, step time 4.0/4.0 "
            "% (current "
            "machine speed), 10.0/10.0 % (calibrated), bubble 0.000/0.000");
  records.erase(records.begin());
  EXPECT_NEAR(summarize(records).step_time->worst, 0.896, 1e-9) << "with nothing else they are shown";
}

}  // namespace
}  // namespace plumbline::record_tables_test
