// Histories of results folders, and cells that are matched by the keys that vary.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/show/history/history.hpp"
#include "bench/show/history/regression.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline::history_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A cell of a folder: sizes, keys of all cells, seconds of a step.
Record cell(int tensor, double step, const std::string& steps = "5", const std::string& length = "512") {
  Record record = sample_record(fmt::format("tp{}-{}-{}", tensor, steps, length));
  record.config = {{"tensor_model_parallel_size", fmt::format("{}", tensor)},
                   {"seq_length", length},
                   {"steps", steps},
                   {"world_size", fmt::format("{}", tensor)}};
  record.probed.reset();
  record.measurement->steps.clear();
  record.measurement->disturbance = {};
  record.measurement->time.step = {step};
  return record;
}

/// Ten folders of four cells with noise of half a percent.
std::vector<HistoryFolder> folders(std::mt19937& random, double slowdown, std::size_t from) {
  std::normal_distribution<double> normal(0, 0.005);
  std::vector<HistoryFolder> all;
  for (std::size_t i = 0; i < 10; ++i) {
    HistoryFolder folder{fmt::format("2026-11-{:02}", i + 1), {}};
    for (const int tensor : {1, 2, 4, 8}) {
      const double slower = tensor == 4 && i >= from ? 1 + slowdown : 1;
      folder.records.push_back(cell(tensor, slower * std::exp(normal(random)) / tensor));
    }
    all.push_back(std::move(folder));
  }
  return all;
}

TEST(Histories, ASlowdownInOneCellIsTheOnlyChange) {
  std::mt19937 random(3);
  for (std::size_t from = 2; from < 10; ++from) {
    const History history = history_of(folders(random, 0.05, from), {});
    ASSERT_EQ(history.changes.size(), 1U) << from;
    EXPECT_EQ(history.cells[history.changes[0].point.series].name, "tp 4");
    EXPECT_EQ(history.changes[0].point.at, from);
    EXPECT_TRUE(history.regressed());
  }
  const History faster = history_of(folders(random, -0.05, 5), {});
  ASSERT_EQ(faster.changes.size(), 1U);
  EXPECT_FALSE(faster.regressed());
}

TEST(Histories, NoiseAloneIsNoChange) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 200; ++trial)
    EXPECT_THAT(history_of(folders(random, 0, 0), {}).changes, IsEmpty()) << trial;
}

TEST(Histories, AreWrittenOut) {
  std::mt19937 random(5);
  std::vector<HistoryFolder> all = folders(random, 0.05, 6);
  all[8].records[0].measurement->memory.peak.value *= 2;
  all[9].records[0].measurement->memory.peak.value *= 2;
  const History history = history_of(all, {});
  const std::string text = history_text(history);
  EXPECT_THAT(text, HasSubstr("10 folders, 2026-11-01"));
  EXPECT_THAT(text, HasSubstr("worse: tp 4: step time +"));
  EXPECT_THAT(text, HasSubstr("worse: tp 1: peak memory +100.0 %"));
  EXPECT_THAT(text, HasSubstr("4 cells in 10 folders: 2 changes for the worse, 0 for the better; the newest "
                              "folder is worse than before"));
  const auto json = nlohmann::json::parse(history_json(history));
  EXPECT_EQ(json["changes"][0]["what"], "peak memory");
  EXPECT_EQ(json["changes"][1]["folder"], "2026-11-07");
  EXPECT_EQ(json["regressed"], true);
  EXPECT_EQ(json["cells"].size(), 4U);
  EXPECT_THAT(history_page(history), HasSubstr("<svg"));
}

TEST(Histories, OtherRunsAreNotCompared) {
  std::mt19937 random(6);
  std::vector<HistoryFolder> all = folders(random, 0, 0);
  for (Record& record : all[0].records) record.config[1].second = "256";
  for (Record& record : all[1].records) record.config[2].second = "9";
  const History history = history_of(all, {});
  EXPECT_EQ(history.folders.size(), 9U);
  EXPECT_THAT(history.notes, ElementsAre("2026-11-01: not comparable: seq_length 256 (512 in 2026-11-10)",
                                         "2026-11-02: compared, with steps 9 (5 in 2026-11-10)"));
  EXPECT_TRUE(history_of({}, {}).cells.empty());
  EXPECT_TRUE(history_of({{"empty", {}}, {"too", {}}}, {}).cells.empty());
}

/// A changed number of steps makes other ids of the same cells: named once, and no loss.
TEST(MatchedCellsTest, KeysOfAllCellsAreNamedOnce) {
  const std::vector<Record> base = {cell(1, 1), cell(2, 0.5)};
  const Regression steps =
      compare_records(base, {cell(1, 1, "9"), cell(2, 0.55, "9"), cell(4, 1, "9")}, 0.05);
  EXPECT_EQ(steps.compared, 2);
  EXPECT_EQ(steps.new_cells, 1);
  ASSERT_EQ(steps.changes.size(), 1U);
  EXPECT_EQ(steps.changes[0].what, "step time");
  EXPECT_THAT(to_text(steps, 0.05), HasSubstr("configuration: steps: 5 -> 9\n"));
  const Regression longer = compare_records(base, {cell(1, 3, "5", "1024"), cell(2, 3, "5", "1024")}, 0.05);
  EXPECT_EQ(longer.compared, 0);
  EXPECT_EQ(longer.not_comparable, 2);
  EXPECT_FALSE(longer.any_loss());
  EXPECT_THAT(to_text(longer, 0.05), HasSubstr("; 2 cells not comparable: another configuration"));
  const Regression missing = compare_records(base, {cell(1, 1)}, 0.05);
  EXPECT_TRUE(missing.any_loss()) << "a cell of the same matrix that is gone";
}

}  // namespace
}  // namespace plumbline::history_test
