// Several runners with one results folder: every cell once, with any of them killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "bench/record/cell_claims.hpp"
#include "bench/record/record_store.hpp"
#include "core/base/error.hpp"
#include "tests/bench/record/record_support.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::shared_store_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class SharedStore : public ::testing::Test {
 protected:
  /// Runs every cell that is free; returns their number.
  int run(const std::vector<std::string>& ids, int killed_after) const {
    RecordStore store(folder_, kResultsFile, StoreUse::shared);
    const CellClaims claims(folder_);
    int done = 0;
    for (const std::string& id : ids) {
      const auto claim = claims.take(id);
      if (!claim) continue;
      store.refresh();
      if (store.records().find(id) != nullptr) continue;
      if (done == killed_after) raise(SIGKILL);  // in the middle of a cell
      store.append(sample_record(id));
      ++done;
    }
    return done;
  }
  const test::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.folder_;
};

TEST_F(SharedStore, EveryCellIsDoneOnceThoughTwoRunnersAreCutOff) {
  std::vector<std::string> ids;
  for (int i = 0; i < 40; ++i) ids.push_back("cell" + std::to_string(i));
  std::vector<pid_t> runners;
  for (const int killed_after : {-1, 3, -1, 5}) {
    const pid_t runner = fork();
    if (runner == 0) {
      run(ids, killed_after);
      _exit(0);
    }
    runners.push_back(runner);
  }
  for (const pid_t runner : runners) waitpid(runner, nullptr, 0);
  run(ids, -1);  // the next job: the others' unfinished cells
  std::ifstream lines(folder_ + "/" + kResultsFile);
  std::multiset<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.insert(parse_record(line, "row").id);
  EXPECT_EQ(rows, std::multiset<std::string>(ids.begin(), ids.end()));
}

TEST_F(SharedStore, SeesWhatOthersAppendAndRepairsWhatAKillLeft) {
  RecordStore one(folder_, kResultsFile, StoreUse::shared);
  RecordStore other(folder_, kResultsFile, StoreUse::shared);
  one.append(sample_record("a"));
  EXPECT_EQ(other.records().find("a"), nullptr);
  other.refresh();
  EXPECT_NE(other.records().find("a"), nullptr);
  EXPECT_TRUE(other.is_new("a"));
  std::ofstream(one.path(), std::ios::app) << R"({"id": "torn")";
  other.append(sample_record("b"));
  one.refresh();
  EXPECT_NE(one.records().find("b"), nullptr);
  EXPECT_EQ(load_records(folder_).size(), 2U);
  EXPECT_FALSE(RecordStore(folder_, kResultsFile, StoreUse::shared).is_new("a"));
}

TEST_F(SharedStore, WhoIsAloneAndWhoSharesKeepEachOtherOut) {
  {
    const RecordStore alone(folder_);
    EXPECT_THAT([&] { RecordStore(folder_, kResultsFile, StoreUse::shared); },
                ThrowsMessage<InputError>(HasSubstr("does not share it (--share)")));
  }
  const RecordStore shared(folder_, kResultsFile, StoreUse::shared);
  EXPECT_THAT([&] { RecordStore alone(folder_); },
              ThrowsMessage<InputError>(HasSubstr("in use by another run, expected")));
}

TEST_F(SharedStore, AClaimEndsWithItsOwner) {
  const CellClaims claims(folder_);
  auto claim = claims.take("a");
  EXPECT_TRUE(claim.has_value());
  EXPECT_FALSE(CellClaims(folder_).take("a").has_value());
  EXPECT_TRUE(claims.take("b").has_value());
  claim.reset();
  EXPECT_TRUE(claims.take("a").has_value());
}

}  // namespace
}  // namespace plumbline::shared_store_test
