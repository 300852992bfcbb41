// One list of columns: terminal, CSV, page and results/README.md label a figure alike.
#include "bench/show/text/cell_columns.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "bench/show/report/escape.hpp"
#include "bench/show/report/html_report.hpp"
#include "bench/show/text/record_tables.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline::cell_columns_test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// With device memory, probes and dropped tokens: every column has a value.
Record full_record() {
  Record record = sample_record("a");
  record.measurement->expert_load = {{3, {10, 6, 2}, {1, 0, 0}}};
  record.baseline = BaselineReport{"b", 1.5, 1.25};
  return record;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

/// The number at "error.step_time".
double number_at(const OrderedJson& json, std::string_view path) {
  const OrderedJson* place = &json;
  for (const std::string& key : split(std::string(path), '.')) place = &place->at(key);
  return place->get<double>();
}

TEST(CellColumns, EachIsTheFigureOfTheRecordAtItsPath) {
  const Record record = full_record();
  const OrderedJson json = to_json(record);
  const Record nothing;
  int with_path = 0;
  for (const CellColumn& column : cell_columns()) {
    SCOPED_TRACE(column.csv);
    EXPECT_TRUE(std::isfinite(column.of(record)));
    EXPECT_TRUE(std::isnan(column.of(nothing)));
    if (column.json.empty()) continue;
    ++with_path;
    EXPECT_EQ(column.of(record), number_at(json, column.json));
  }
  EXPECT_EQ(with_path, 20);
}

TEST(CellColumns, CsvHasEachUnderItsHeader) {
  const Record record = full_record();
  const auto lines = split(to_csv({record}), '\n');
  const auto header = split(lines.at(0), ',');
  const auto row = split(lines.at(1), ',');
  for (const CellColumn& column : cell_columns()) {
    if (column.csv.empty()) continue;
    SCOPED_TRACE(column.csv);
    const auto place = std::find(header.begin(), header.end(), column.csv);
    ASSERT_NE(place, header.end());
    EXPECT_EQ(std::stod(row.at(static_cast<std::size_t>(place - header.begin()))), column.of(record));
  }
}

TEST(CellColumns, ThePageHasEachUnderItsLabel) {
  const std::vector<Record> records = {full_record()};
  ReportInput input;
  input.records = records;
  const std::string page = html_report(input);
  const CellUnits units(records);
  for (const CellColumn& column : cell_columns()) {
    SCOPED_TRACE(column.csv);
    EXPECT_NE(page.find(">" + column.label(records) + "</button>"), std::string::npos);
    EXPECT_NE(page.find(">" + units.group(column) + "</th>"), std::string::npos);
    EXPECT_NE(page.find(">" + units.text(column, column.of(records[0])) + "</td>"), std::string::npos);
  }
}

TEST(CellColumns, TheTerminalSaysWhichSpeedItShows) {
  const Record probed = full_record();
  Record unprobed = sample_record("b");
  unprobed.probed.reset();
  unprobed.error = compare(*unprobed.prediction, *unprobed.measurement);
  Record predicted = sample_record("c");
  predicted.probed.reset();
  predicted.measurement.reset();
  predicted.error.reset();
  const std::string current = "step time and bubble: predicted (current machine speed)";
  const std::string other = ", cells without a probe (calibrated)";
  const std::string both = "; compare --format csv and html show both\n";
  struct Case {
    const char* name;
    std::vector<Record> records;
    std::string says;
    std::vector<std::string> steps;
  };
  const std::vector<Case> cases = {
      {"probed", {probed}, "\n" + current + both, {"520.0"}},
      {"some probed", {probed, predicted}, "\n" + current + other + both, {"520.0", "550.0"}},
      {"not probed",
       {unprobed, predicted},
       "\nstep time and bubble: predicted (calibrated)\n",
       {"550.0", "550.0"}},
      {"nothing measured", {predicted}, "", {"550.0"}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string table = to_table(c.records, {});
    EXPECT_THAT(table, HasSubstr(c.says));
    if (c.says.empty()) {
      EXPECT_THAT(table, Not(HasSubstr("step time and bubble")));
    }
    const auto lines = split(table, '\n');
    EXPECT_THAT(lines.at(0), HasSubstr("peak memory, MiB"));
    EXPECT_THAT(lines.at(0), HasSubstr("step time, ms"));
    for (std::size_t i = 0; i < c.steps.size(); ++i)
      EXPECT_THAT(lines.at(2 + i), HasSubstr(" " + c.steps[i] + "  "));
  }
}

TEST(CellColumns, PredictionsAloneHaveNoColumnsOfMeasurements) {
  Record predicted = full_record();
  predicted.probed.reset();
  predicted.measurement.reset();
  predicted.error.reset();
  struct Case {
    const char* name;
    std::vector<Record> records;
    bool measured;
  };
  const std::vector<Case> cases = {{"predicted alone", {predicted, predicted}, false},
                                   {"one is measured", {predicted, full_record()}, true}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_EQ(any_measured(c.records), c.measured);
    for (const CellColumn* column : columns_to_show(c.records))
      EXPECT_TRUE(c.measured || column->side == ColumnSide::predicted) << column->csv;
    const std::string table = to_table(c.records, {});
    for (const char* title : {"tokens/s/GPU", "TFLOP/s/GPU", "MFU %", "of device %"})
      EXPECT_EQ(table.find(title) == std::string::npos, c.measured) << title << "\n" << table;
    EXPECT_EQ(table.find("measured") != std::string::npos, c.measured) << table;
    EXPECT_EQ(to_line(summarize(c.records))
                      .find("fastest predicted cell that fits: #1, 500.0 tokens/s/GPU, MFU "
                            "20.0 %") == std::string::npos,
              c.measured);
    ReportInput input;
    input.records = c.records;
    const std::string page = html_report(input);
    EXPECT_EQ(page.find("id=\"accuracy\"") != std::string::npos, c.measured);
    EXPECT_EQ(page.find("Fastest that fits, tokens/s/GPU") == std::string::npos, c.measured);
  }
}

/// The word for the basis of predicted times is the same in the terminal, CSV, JSON and the page.
TEST(CellColumns, PredictedTimesHaveTheSameBasisEverywhere) {
  struct Case {
    bool guessed;
    bool estimated;
    const char* csv;
    const char* words;  // behind "predicted"
  };
  const Case cases[] = {{false, false, "calibrated", " (calibrated)"},
                        {false, true, "estimated", " (accelerator's constants)"},
                        {true, false, "guess", " (guess)"}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.csv);
    Record record = full_record();
    record.probed.reset();
    record.prediction->times_guessed = c.guessed;
    record.prediction->times_estimated = c.estimated;
    const std::vector<Record> records = {record};
    ReportInput input;
    input.records = records;
    const auto lines = split(to_csv(records), '\n');
    const auto header = split(lines.at(0), ',');
    const auto place = std::find(header.begin(), header.end(), "predicted_times") - header.begin();
    ASSERT_LT(place, std::ssize(header));
    EXPECT_EQ(split(lines.at(1), ',').at(static_cast<std::size_t>(place)), c.csv);
    const OrderedJson json = to_json(record)["prediction"];
    EXPECT_EQ(json.value("times_guessed", false), c.guessed);
    EXPECT_EQ(json.value("times_estimated", false), c.estimated);
    const std::string summary = to_line(summarize(records));
    const std::string page = html_report(input);
    EXPECT_THAT(summary, HasSubstr(std::string("%") + c.words));
    EXPECT_THAT(page, HasSubstr(">" + html_escaped(std::string("predicted") + c.words) + "</button>"));
    if (!c.guessed && !c.estimated) continue;
    for (const std::string& text : {lines.at(0), lines.at(1), summary, page, to_table(records, {0, false})})
      EXPECT_EQ(text.find("(calibrated)"), std::string::npos) << text.substr(0, 200);
    EXPECT_THAT(lines.at(0), Not(HasSubstr("calibrated")));
  }
}

TEST(CellColumns, TheReadmeOfResultsListsThem) {
  std::ifstream file(std::string(PLUMBLINE_SOURCE_DIR) + "/results/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  Record slow = full_record();
  slow.prediction->time.step = {2};
  slow.measurement->time.step = {2};
  const CellUnits units({slow});
  for (const CellColumn& column : cell_columns()) {
    if (column.json.empty()) continue;
    const std::string group = units.group(column);
    const std::string row = "| " + group.substr(0, group.find(',')) + " | " + column.label({}) + " | `" +
                            std::string(column.csv) + "` | `" + std::string(column.json) + "` |\n";
    EXPECT_NE(readme.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace plumbline::cell_columns_test
