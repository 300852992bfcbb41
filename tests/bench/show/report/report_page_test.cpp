// The page without a browser: required contents of the file for any records.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/show/report/assets.hpp"
#include "bench/show/report/escape.hpp"
#include "bench/show/report/html_report.hpp"
#include "bench/show/report/page_parts.hpp"
#include "bench/show/report/recovery_lanes.hpp"
#include "core/base/error.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline::report_page_test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Escape, MarkupBecomesText) {
  EXPECT_EQ(html_escaped("<a href=\"x\" b='y'>&amp;"), "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;");
  EXPECT_EQ(html_escaped(std::string("a\x01\xff") + "b"),
            "a\xef\xbf\xbd\xef\xbf\xbd"
            "b");
  EXPECT_EQ(json_for_script("[\"</script><!--\"]"), "[\"\\u003c/script>\\u003c!--\"]");
}

TEST(Escape, Base64) {
  const auto of = [](std::string_view text) {
    return base64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  };
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("f"), "Zg==");
  EXPECT_EQ(of("fo"), "Zm8=");
  EXPECT_EQ(of("foo"), "Zm9v");
  EXPECT_EQ(of("\xff\xfe\xfd\xfc"), "//79/A==");
}

// Steps 6 to 45 with a kill that loses work, a full disk that ends nothing, and the return of a replica.
TEST(RecoveryLanes, EveryMomentOfTheRunIsInOneLane) {
  RecoveryReport report;
  report.begun_step = 5;
  report.steps = 40;
  report.total = {30};
  report.costs.reduced = {{1, 10, {1}}};
  report.saves = {{15, {6}, {0.5}, {0.25}}, {25, {20}, {0.5}, {1}}};
  report.failures = {{"kill", 3, {8}, {0.5}, {2}, {1.5}, 3, 15, {1}, 1},
                     {"disk", 0, {13}, {}, {}, {}, 0, 0, {}, 1},
                     {"return", 0, {21}, {}, {3}, {0.5}, 0, 25, {}, 2}};
  const RecoveryLanes built = recovery_lanes(report);
  double sum = 0;
  std::map<std::string, std::vector<std::pair<double, double>>> spans;
  for (const RecoveryLane& lane : built.lanes) {
    for (const RecoverySpan& span : lane.spans) {
      spans[lane.name].emplace_back(span.begin.value, span.end.value);
      if (std::string(lane.name) != "checkpoints") sum += (span.end - span.begin).value;
    }
  }
  using Spans = std::vector<std::pair<double, double>>;
  EXPECT_DOUBLE_EQ(sum, 30);
  EXPECT_EQ(spans["steps"], (Spans{{0, 6.5}, {24, 30}}));
  EXPECT_EQ(spans["lost work"], (Spans{{6.5, 8}, {20.5, 21}}));
  EXPECT_EQ(spans["detection"], (Spans{{8, 8.5}}));
  EXPECT_EQ(spans["waiting"], (Spans{{8.5, 9.5}}));
  EXPECT_EQ(spans["restart"], (Spans{{9.5, 11.5}, {21, 24}}));
  EXPECT_EQ(spans["steps, fewer replicas"], (Spans{{11.5, 20.5}}));
  EXPECT_EQ(spans["failures"], (Spans{{8, 8}, {13, 13}}));
  EXPECT_EQ(spans["checkpoints"], (Spans{{6, 6.5}, {20, 21}}));
  ASSERT_GE(built.progress.size(), 2U);
  EXPECT_EQ(built.progress.front().steps, 5);
  EXPECT_EQ(built.progress.back().steps, 45);
  double highest = 0;
  for (const RecoveryProgress& each : built.progress)
    if (each.at <= Seconds{8}) highest = std::max(highest, each.steps);
  EXPECT_EQ(highest, 18);  // three of them lost
}

TEST(RecoveryPage, IsThereWhereFailuresWereInjected) {
  Record record = sample_record("a");
  record.recovery->failures[0].kind = "<kill>";
  const std::string html = recovery_html({record});
  EXPECT_THAT(html, HasSubstr("class=\"span-restart\""));
  EXPECT_THAT(html, HasSubstr(">wall time</text>"));
  EXPECT_THAT(html, HasSubstr(">completed steps</text>"));
  EXPECT_THAT(html, HasSubstr("<td>62.0 %</td><td>+2.0 points</td>"));
  EXPECT_THAT(html, HasSubstr("&lt;kill&gt; of rank 1"));
  EXPECT_THAT(html, Not(HasSubstr("<kill>")));
  record.recovery.reset();
  EXPECT_EQ(recovery_html({record}), "");
}

ReportInput input_of(std::vector<Record> records) {
  ReportInput input;
  input.title = "a matrix";
  input.records = std::move(records);
  return input;
}

/// Text of an inert element; empty without it.
std::string element_of(const std::string& page, const std::string& type, const std::string& id) {
  const std::string begin = fmt::format("<script type=\"{}\" id=\"{}\">", type, id);
  const std::size_t found = page.find(begin);
  if (found == std::string::npos) return "";
  const std::size_t from = found + begin.size();
  return page.substr(from, page.find("</script>", from) - from);
}

std::vector<std::uint8_t> from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> bytes;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text.substr(0, text.find('='))) {
    bits = bits << 6 | static_cast<std::uint32_t>(digits.find(c));
    held += 6;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<std::uint8_t>(bits >> held & 255));
  }
  return bytes;
}

std::vector<nlohmann::json> blocks_of(const std::string& page) {
  std::vector<nlohmann::json> blocks;
  while (true) {
    const std::string text = element_of(page, "text/plain", fmt::format("details-{}", blocks.size()));
    if (text.empty()) return blocks;
    const std::vector<std::uint8_t> packed = from_base64(text);
    std::string json(std::size_t{16} << 20, ' ');
    uLongf size = json.size();
    EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(json.data()), &size, packed.data(), packed.size()), Z_OK);
    blocks.push_back(nlohmann::json::parse(json.substr(0, size)));
  }
}

/// The page's data with the details put into the cells, as its script does.
nlohmann::json data_of(const std::string& page) {
  nlohmann::json data = nlohmann::json::parse(element_of(page, "application/json", "data"));
  const std::vector<nlohmann::json> blocks = blocks_of(page);
  for (nlohmann::json& cell : data["cells"])
    cell.update(blocks.at(cell["details"][0].get<std::size_t>()).at(cell["details"][1].get<std::size_t>()));
  return data;
}

TEST(Page, LoadsNothingAndRunsNothingElse) {
  const std::string page = html_report(input_of({sample_record("a")}));
  for (const char* address :
       {"http://", "https://", " src=", "<link", "@import", "url(http", "onclick", "style=\""})
    EXPECT_THAT(page, Not(HasSubstr(address)));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("script-src 'sha256-" + base64(report_script().sha256) + "'"));
  EXPECT_THAT(page, Not(HasSubstr("unsafe-inline")));
  EXPECT_THAT(page, HasSubstr(report_script().text));
}

TEST(Page, FiguresAreTheRecords) {
  Record record = sample_record("a");
  record.measurement->time.step = {0.123456789};
  record.prediction->memory.peak = {987654321};
  record.error = compare(*record.prediction, *record.measurement);
  const std::string page = html_report(input_of({record, sample_record("b")}));
  EXPECT_THAT(page, HasSubstr("data-v=\"0.123456789\""));
  EXPECT_THAT(page, HasSubstr("data-v=\"987654321\""));
  EXPECT_THAT(page, HasSubstr(fmt::format("data-v=\"{}\"", record.error->step_time)));
  const nlohmann::json data = data_of(page);
  ASSERT_EQ(data["cells"].size(), 2U);
  EXPECT_EQ(data["cells"][0]["measurement"]["time"]["step_s"], 0.123456789);
  EXPECT_EQ(data["cells"][0]["prediction"]["memory"]["peak_bytes"], 987654321);
  EXPECT_EQ(data["common"]["model"], "qwen2.5-0.5b");
}

// Details of many cells are in several blocks, each with its own cells, a fifth of their JSON.
TEST(Page, DetailsOfManyCellsAreInCompressedBlocks) {
  std::vector<Record> records;
  for (int i = 0; i < 300; ++i) {
    Record record = sample_record(fmt::format("cell-{}", i));
    record.measurement->time.step = {1 + i * 1e-3};
    records.push_back(record);
  }
  const std::string page = html_report(input_of(std::move(records)));
  const std::vector<nlohmann::json> blocks = blocks_of(page);
  EXPECT_GT(blocks.size(), 2U);
  std::size_t packed = 0;
  std::size_t whole = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    packed += element_of(page, "text/plain", fmt::format("details-{}", i)).size();
    whole += blocks[i].dump().size();
  }
  EXPECT_LT(packed, whole / 5);
  const nlohmann::json data = data_of(page);
  ASSERT_EQ(data["cells"].size(), 300U);
  for (std::size_t i = 0; i < 300; ++i)
    EXPECT_EQ(data["cells"][i]["measurement"]["time"]["step_s"], 1 + static_cast<double>(i) * 1e-3);
}

TEST(Page, ShowsBothSpeedsAndWhatWasDisturbed) {
  Record quiet = sample_record("a");
  Record loud = sample_record("b");
  loud.measurement->disturbance.disturbed = true;
  const std::string page = html_report(input_of({quiet, loud}));
  EXPECT_THAT(page, HasSubstr(">predicted (current machine speed)</button>"));
  EXPECT_THAT(page, HasSubstr("Step time (calibrated), |error|"));
  EXPECT_THAT(page, HasSubstr("</span>, disturbed</td>"));
  EXPECT_THAT(page, HasSubstr("1 disturbed"));
  quiet.probed.reset();
  quiet.error = compare(*quiet.prediction, *quiet.measurement);
  EXPECT_THAT(html_report(input_of({quiet})), Not(HasSubstr("(current machine speed)<")));
}

TEST(Page, AxesHaveTitlesWithUnits) {
  const std::string page = html_report(input_of({sample_record("a")}));
  for (const char* quantity : {"step time, ms", "peak memory, MiB", "bubble fraction, idle/step"}) {
    EXPECT_THAT(page, HasSubstr(">measured " + std::string(quantity) + "</text>"));
    EXPECT_THAT(page, HasSubstr(">predicted " + std::string(quantity) + "</text>"));
  }
}

TEST(Page, LoadOfExpertsIsAMapOfLayersAndExperts) {
  Record record = sample_record("a");
  record.measurement->expert_load = {{1, {30, 10, 0}, {12, 0, 0}}, {2, {20, 10, 10}, {0, 0, 0}}};
  const std::string page = html_report(input_of({record}));
  EXPECT_THAT(page, HasSubstr("80 routed tokens, expert load max/mean 2.25, 15.00 % dropped"));
  EXPECT_THAT(page, HasSubstr(">layer</text>"));
  EXPECT_THAT(page, HasSubstr(">expert</text>"));
  EXPECT_THAT(page, HasSubstr("<title>layer 1, expert 0: 30 tokens, 12 dropped</title>"));
  EXPECT_THAT(page, HasSubstr("<title>layer 2, expert 2: 10 tokens, 0 dropped</title>"));
  record.measurement->expert_load.clear();
  EXPECT_THAT(html_report(input_of({record})), Not(HasSubstr("Expert load")));
}

TEST(Page, RanksWithEqualMemoryShareARow) {
  Record record = sample_record("a");
  RankMemoryReport rank = record.measurement->memory.ranks[0];
  record.measurement->memory.ranks.clear();
  for (int i = 0; i < 6; ++i) {
    rank.rank = i;
    rank.bytes[Category::logits] = {i == 3 ? 7 : 8};
    record.measurement->memory.ranks.push_back(rank);
  }
  const auto rows = data_of(html_report(input_of({record})))["cells"][0]["measurement"]["memory"]["ranks"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["ranks"], (std::vector<int>{0, 2, 4, 5}));
  EXPECT_EQ(rows[1]["ranks"], (std::vector<int>{3, 3}));
  EXPECT_EQ(rows[1]["bytes"][4], 7);
}

TEST(Page, DeviceMemoryIsThatOfTheFullestRank) {
  Record record = sample_record("a");
  record.measurement->device_memory->ranks[1].total = {76543210};
  const std::string page = html_report(input_of({record}));
  EXPECT_THAT(page, HasSubstr(">device memory, MiB</th>"));
  EXPECT_THAT(page, HasSubstr("data-v=\"76543210\""));
  EXPECT_THAT(page, HasSubstr("data-v=\"40432100\""));
  const auto ranks = data_of(page)["cells"][0]["measurement"]["device_memory"]["ranks"];
  ASSERT_EQ(ranks.size(), 1U);
  EXPECT_EQ(ranks[0]["rank"], 1);
  record.prediction->device_memory.reset();
  record.measurement->device_memory.reset();
  EXPECT_THAT(html_report(input_of({record})), Not(HasSubstr(">device memory, MiB</th>")));
}

TEST(Page, HostileTextStaysText) {
  const std::string attack = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'";
  Record record = sample_record(attack);
  record.reason = attack;
  record.status = Status::oom;
  record.machine.cpu = attack;
  record.config.emplace_back(attack, attack);
  record.config.emplace_back("memory_budget", "5");
  Record other = sample_record("b");
  other.config.emplace_back(attack, "else");
  ReportInput input = input_of({record, other});
  input.title = attack;
  input.timelines = [&](const std::string&) -> std::optional<CellTimelines> { throw InputError(attack); };
  const std::string page = html_report(input);
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  std::size_t scripts = 0;
  for (std::size_t at = 0; (at = page.find("<script", at)) != std::string::npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 3U);  // the data, a block of details and the program
}

TEST(Page, WithoutRecordsOrMeasurements) {
  EXPECT_THAT(html_report(input_of({})), HasSubstr("no measurement"));
  Record record = sample_record("a");
  record.measurement.reset();
  record.error.reset();
  const std::string predicted = html_report(input_of({record}));
  EXPECT_THAT(predicted, HasSubstr("no measurement"));
  EXPECT_THAT(predicted, Not(HasSubstr("<td class=\"num none\">")));
  EXPECT_THAT(predicted, Not(HasSubstr("Predicted against measured")));
  record = sample_record("a");
  record.prediction.reset();
  EXPECT_THAT(html_report(input_of({record})), HasSubstr("No cell was both predicted and measured"));
  record = sample_record("a");
  record.measurement->time.step = {NAN};
  record.measurement->loss = NAN;
  EXPECT_THAT(html_report(input_of({record})), Not(HasSubstr("nan")));
}

TEST(Page, TimelinesThatDoNotFitAreLeftOutAndSaidSo) {
  ReportInput input = input_of({sample_record("a"), sample_record("b")});
  input.timelines = [](const std::string& id) -> std::optional<CellTimelines> {
    CellTimelines timelines{id, Timeline{}, std::nullopt};
    timelines.predicted->trace.ranks.emplace_back(1000, Event{{}, {0}, {1}});
    timelines.predicted->memory.emplace_back(1000);
    for (std::size_t i = 0; i < 1000; ++i)
      timelines.predicted->memory[0][i].peak[Category::logits] = {static_cast<std::int64_t>(i)};
    return timelines;
  };
  const auto note = [&](std::size_t budget, std::size_t cell) {
    input.timeline_budget = budget;
    const std::string page = html_report(input);
    EXPECT_LT(page.size(), budget + 200'000);
    return data_of(page)["cells"][cell].value("timeline_note", "");
  };
  EXPECT_EQ(note(1 << 20, 1), "");
  EXPECT_THAT(note(100'000, 1), HasSubstr("Memory over time is left out"));
  EXPECT_THAT(note(40'000, 1), HasSubstr("timelines are left out"));
}

TEST(Page, WhatFitsIsATableOverTheBatchSize) {
  std::vector<Record> records;
  for (const char* batch : {"8", "16", "128"}) {
    Record record = sample_record(batch);
    record.config.emplace_back("global_batch_size", batch);
    record.config.emplace_back("memory_budget", "1000000");
    records.push_back(record);
  }
  records[2].prediction->fits = false;
  records[2].status = Status::oom;
  records[2].measurement.reset();
  records[1].prediction->fits = false;
  const std::string page = html_report(input_of(records));
  const std::size_t fit = page.find("<table class=\"fit\"");
  ASSERT_NE(fit, std::string::npos);
  const std::string table = page.substr(fit, page.find("</table>", fit) - fit);
  EXPECT_LT(table.find("<th scope=\"col\">8<"), table.find("<th scope=\"col\">16<"));
  EXPECT_LT(table.find("<th scope=\"col\">16<"), table.find("<th scope=\"col\">128<"));
  EXPECT_THAT(table, HasSubstr("predicted does not fit"));
  EXPECT_THAT(table, HasSubstr("measured OOM"));
  EXPECT_THAT(table, HasSubstr("prediction wrong"));
  EXPECT_THAT(html_report(input_of({sample_record("a")})), Not(HasSubstr("class=\"fit\"")));
}

}  // namespace
}  // namespace plumbline::report_page_test
