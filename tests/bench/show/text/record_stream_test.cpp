// Large files of records: streamed and trimmed, they give the tables that whole records give.
#include "bench/show/text/record_stream.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/record/record_store.hpp"
#include "bench/show/history/matched_cells.hpp"
#include "bench/show/text/record_tables.hpp"
#include "core/base/error.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline::record_stream_test {
namespace {

/// 40 records: one repeated later, keys that differ from the 30th on, one that a record lacks, a baseline.
std::vector<Record> stored() {
  std::vector<Record> records;
  for (int i = 0; i < 40; ++i) {
    Record record = sample_record(fmt::format("cell-{}", i));
    record.measurement->time.step = {1 + i * 0.1};
    record.baseline = BaselineReport{"cell-0"};
    if (i >= 30) record.config[5].second = "0.5";
    if (i >= 20) record.config.emplace_back("micro_batch_size", fmt::format("{}", i));
    if (i == 35) record.config.erase(record.config.begin());
    records.push_back(record);
  }
  Record again = records[7];
  again.measurement->time.step = {9};
  records.push_back(again);
  return records;
}

class RecordStreamTest : public testing::Test {
 protected:
  RecordStreamTest() : path_(testing::TempDir() + "/plumbline_stream.jsonl") {
    std::ofstream file(path_);
    for (const Record& record : stored()) file << to_line(record) << '\n';
    file << R"({"schema": 1, "id": "unfinished)";
  }
  ~RecordStreamTest() override { std::filesystem::remove(path_); }

  template <class Write>
  static std::string written(const Write& write) {
    std::FILE* const file = std::tmpfile();
    write(file);
    std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
    std::rewind(file);
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), file), text.size());
    std::fclose(file);
    return text;
  }

  std::string path_;
};

TEST_F(RecordStreamTest, GivesWhatWholeRecordsGive) {
  const std::vector<Record> whole = load_records(path_);
  ASSERT_EQ(whole.size(), 40U);
  const RecordStream stream(path_);
  EXPECT_EQ(written([&](std::FILE* out) { write_csv(out, stream); }), to_csv(whole));
  EXPECT_EQ(written([&](std::FILE* out) { write_json_array(out, stream); }),
            written([&](std::FILE* out) { write_json_array(out, whole); }));
}

TEST_F(RecordStreamTest, FiguresGiveTheSameTableInLessMemory) {
  const std::vector<Record> whole = load_records(path_);
  const std::vector<Record> figures = load_figures(path_);
  EXPECT_EQ(to_table(figures, TableStyle{}), to_table(whole, TableStyle{}));
  EXPECT_EQ(keys_to_show(figures), keys_to_show(whole));
  EXPECT_EQ(shared_values(figures), shared_values(whole));
  EXPECT_EQ(varying_keys(figures), varying_keys(whole));
  for (const Record& record : figures) {
    EXPECT_TRUE(&record == &figures.front() || record.config.size() < 7U);
    EXPECT_TRUE(record.measurement->memory.ranks.empty());
  }
}

TEST_F(RecordStreamTest, RefusesADamagedFileBeforeAnythingIsPassedOn) {
  std::ofstream(path_, std::ios::app) << "\nno record\n";
  EXPECT_THROW(RecordStream{path_}, InputError);
  EXPECT_THROW(load_figures(path_), InputError);
}

TEST_F(RecordStreamTest, ReadsTheOneRecordOfRun) {
  const Record record = sample_record("one");
  std::ofstream(path_) << to_json(record).dump(2) << '\n';
  int count = 0;
  RecordStream(path_).each([&](const Record& each) { count += each.id == "one" ? 1 : 100; });
  EXPECT_EQ(count, 1);
  EXPECT_EQ(load_figures(path_).size(), 1U);
}

}  // namespace
}  // namespace plumbline::record_stream_test
