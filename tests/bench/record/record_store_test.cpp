// A store of records that survives kills.
#include "bench/record/record_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <random>
#include <thread>

#include "core/base/atomic_file.hpp"
#include "core/base/error.hpp"
#include "tests/bench/record/record_support.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::record_store_test {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RecordStore, KeepsTheLatestRecordOfAnId) {
  const TemporaryFolder folder;
  {
    RecordStore store(folder.at("deep/inside"));
    EXPECT_EQ(store.records().find("a"), nullptr);
    store.append(sample_record("a"));
    store.append(sample_record("b"));
    Record again = sample_record("a");
    again.status = Status::failed;
    store.append(again);
  }
  const RecordStore store(folder.at("deep/inside"));
  ASSERT_EQ(store.records().all().size(), 2U);
  EXPECT_EQ(store.records().all()[0].id, "a");
  EXPECT_EQ(store.records().find("a")->status, Status::failed);
  EXPECT_EQ(load_records(folder.at("deep/inside")).size(), 2U);
}

TEST(RecordStore, ReadsWhatARunPrinted) {
  const TemporaryFolder folder;
  folder.write("run.json", to_json(sample_record("a")).dump(2) + "\n");
  ASSERT_EQ(load_records(folder.at("run.json")).size(), 1U);
  EXPECT_EQ(to_json(load_records(folder.at("run.json")).front()), to_json(sample_record("a")));
}

TEST(RecordStore, RepairsATornLastLineAtEveryLength) {
  const TemporaryFolder folder;
  std::string whole;
  {
    RecordStore store(folder.folder_);
    store.append(sample_record("a"));
    whole = folder.read(kResultsFile);
  }
  const std::string second = to_line(sample_record("b")) + "\n";
  for (std::size_t cut = 0; cut <= second.size(); cut += cut + 40 < second.size() ? 37 : 1) {
    folder.write(kResultsFile, whole + second.substr(0, cut));
    EXPECT_EQ(load_records(folder.folder_).size(), cut == second.size() ? 2U : 1U);
    RecordStore store(folder.folder_);
    EXPECT_EQ(store.records().all().size(), cut == second.size() ? 2U : 1U) << cut;
    EXPECT_EQ(folder.read(kResultsFile), cut == second.size() ? whole + second : whole);
  }
}

TEST(RecordStore, IsForOneRunnerAtATime) {
  const TemporaryFolder folder;
  {
    const RecordStore first(folder.folder_);
    EXPECT_THAT([&] { RecordStore second(folder.folder_); }, ThrowsMessage<InputError>(HasSubstr("in use")));
    EXPECT_NO_THROW(load_records(folder.folder_));
  }
  EXPECT_NO_THROW(RecordStore(folder.folder_));
}

TEST(RecordStore, SaysWhichLineIsNoRecord) {
  const TemporaryFolder folder;
  folder.write(kResultsFile, to_line(sample_record("a")) + "\n{\"schema\":1}\n");
  EXPECT_THAT([&] { RecordStore store(folder.folder_); },
              ThrowsMessage<InputError>(HasSubstr("results.jsonl:2: id: missing; expected a text")));
}

TEST(RecordStore, RefusesAFolderThatCannotBeWritten) {
  const TemporaryFolder folder;
  folder.write("file", "x");
  EXPECT_THROW(RecordStore(folder.at("file")), OutputError);
  EXPECT_THROW(RecordStore(folder.at("file/below")), OutputError);
  EXPECT_THROW(RecordStore("/proc/nowhere"), OutputError);
  fs::create_directory(folder.at(kResultsFile));
  EXPECT_THROW(RecordStore(folder.folder_), OutputError);
  EXPECT_THROW(load_records(folder.folder_), InputError);
  EXPECT_THROW(load_records(folder.at("missing")), InputError);
  EXPECT_EQ(folder.read("file"), "x");
}

TEST(RecordStore, SaysThatItsFileHasGone) {
  const TemporaryFolder folder;
  struct Case {
    const char* name;
    std::function<void(const std::string& results)> fate;
    const char* says;
  };
  const Case cases[] = {
      {"removed", [](const std::string& results) { fs::remove_all(results); }, "records are gone"},
      {"moved", [](const std::string& results) { fs::rename(results, results + "-moved"); },
       "records are where it is now"},
      {"replaced",
       [](const std::string& results) {
         fs::remove(results + "/" + kResultsFile);
         std::ofstream(results + "/" + kResultsFile) << "";
       },
       "records are gone"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const std::string results = folder.at(c.name);
    RecordStore store(results);
    store.append(sample_record("a"));
    EXPECT_NO_THROW(store.check_place());
    c.fate(results);
    EXPECT_THAT([&] { store.check_place(); }, ThrowsMessage<Error>(HasSubstr(c.says)));
    EXPECT_THAT([&] { store.append(sample_record("b")); },
                ThrowsMessage<Error>(HasSubstr("removed or moved while it is written")));
  }
}

TEST(RecordStore, AFullDiskLeavesTheRecordsAsTheyWere) {
  const TemporaryFolder folder;
  RecordStore store(folder.folder_);
  store.append(sample_record("a"));
  const std::string before = folder.read(kResultsFile);
  struct rlimit unlimited {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  struct rlimit small = unlimited;
  small.rlim_cur = before.size() + 10;
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);  // as in prepare_standard_streams()
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THAT([&] { store.append(sample_record("b")); },
              ThrowsMessage<Error>(HasSubstr("cannot write a record: File too large")));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(folder.read(kResultsFile), before);
  EXPECT_EQ(store.records().find("b"), nullptr);
  store.append(sample_record("b"));
  EXPECT_EQ(load_records(folder.folder_).size(), 2U);
}

TEST(RecordStore, LosesNothingWhenItsWriterIsKilled) {
  const TemporaryFolder folder;
  std::mt19937 random(11);
  std::size_t known = 0;
  const auto size = [&] {
    std::error_code absent;
    const auto bytes = fs::file_size(folder.at(kResultsFile), absent);
    return absent ? 0 : bytes;
  };
  for (int round = 0; round < 20; ++round) {
    const auto before = size();
    const pid_t writer = fork();
    if (writer == 0) {
      RecordStore store(folder.folder_);
      for (int i = 0;; ++i) store.append(sample_record(std::to_string(round) + "-" + std::to_string(i)));
    }
    // Killed somewhere in its writing, however slowly the machine lets it begin.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (size() == before && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    const RecordStore store(folder.folder_);
    EXPECT_GE(store.records().all().size(), known);
    known = store.records().all().size();
    const std::string text = folder.read(kResultsFile);
    EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), known);
  }
  EXPECT_GT(known, 0U);
}

}  // namespace
}  // namespace plumbline::record_store_test
