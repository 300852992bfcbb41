// Records: the round trip through JSON, hostile lines, and a store that survives kills.
#include "bench/record/record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <system_error>
#include <thread>

#include "bench/record/record_store.hpp"
#include "core/base/error.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Folder {
 public:
  Folder() { path_ = mkdtemp(path_.data()); }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (fs::temp_directory_path() / "record_test_XXXXXX").string();
};

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

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
}

TEST(Record, HasTheKeysThatScriptsRelyOn) {
  const OrderedJson json = to_json(sample_record("a"));
  for (const char* pointer : {"/schema",
                              "/id",
                              "/config/model",
                              "/machine/host",
                              "/machine/cpu",
                              "/machine/gpu",
                              "/machine/versions/plumbline",
                              "/machine/environment/OMP_NUM_THREADS",
                              "/status",
                              "/reason",
                              "/model/parameters",
                              "/model/active_parameters",
                              "/model/mtp_parameters",
                              "/model/flops_per_token",
                              "/prediction/fits",
                              "/prediction/memory/peak_bytes",
                              "/prediction/memory/peak_rank",
                              "/prediction/memory/ranks/0/rank",
                              "/prediction/memory/ranks/0/pipeline_rank",
                              "/prediction/memory/ranks/0/parameters_bytes",
                              "/prediction/memory/ranks/0/gradients_bytes",
                              "/prediction/memory/ranks/0/optimizer_bytes",
                              "/prediction/memory/ranks/0/activations_bytes",
                              "/prediction/memory/ranks/0/logits_bytes",
                              "/prediction/memory/ranks/0/teacher_bytes",
                              "/prediction/memory/ranks/0/communication_bytes",
                              "/prediction/memory/ranks/0/workspace_bytes",
                              "/prediction/memory/ranks/0/total_bytes",
                              "/prediction/time/step_s",
                              "/prediction/time/bubble_ratio",
                              "/prediction/time/bubble_fraction",
                              "/prediction/time/compute_s",
                              "/prediction/time/exposed_tensor_s",
                              "/prediction/time/exposed_pipeline_s",
                              "/prediction/time/exposed_data_s",
                              "/prediction/time/optimizer_s",
                              "/prediction/throughput/tokens_per_s",
                              "/prediction/throughput/tokens_per_s_per_gpu",
                              "/prediction/throughput/model_tflops_per_gpu",
                              "/prediction/throughput/mfu",
                              "/prediction/throughput/hfu",
                              "/prediction/throughput/peak_tflops",
                              "/measurement/time/step_s",
                              "/measurement/samples",
                              "/measurement/step_s_min",
                              "/measurement/step_s_max",
                              "/measurement/loss",
                              "/measurement/device_reserved_bytes",
                              "/error/peak_memory",
                              "/error/step_time",
                              "/error/bubble_fraction"}) {
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

TEST(RecordStore, KeepsTheLatestRecordOfAnId) {
  const Folder folder;
  {
    RecordStore store(folder / "deep/inside");
    EXPECT_EQ(store.records().find("a"), nullptr);
    store.append(sample_record("a"));
    store.append(sample_record("b"));
    Record again = sample_record("a");
    again.status = Status::failed;
    store.append(again);
  }
  const RecordStore store(folder / "deep/inside");
  ASSERT_EQ(store.records().all().size(), 2U);
  EXPECT_EQ(store.records().all()[0].id, "a");
  EXPECT_EQ(store.records().find("a")->status, Status::failed);
  EXPECT_EQ(load_records(folder / "deep/inside").size(), 2U);
}

TEST(RecordStore, ReadsWhatARunPrinted) {
  const Folder folder;
  std::ofstream(folder / "run.json") << to_json(sample_record("a")).dump(2) << '\n';
  ASSERT_EQ(load_records(folder / "run.json").size(), 1U);
  EXPECT_EQ(to_json(load_records(folder / "run.json").front()), to_json(sample_record("a")));
}

TEST(RecordStore, RepairsATornLastLineAtEveryLength) {
  const Folder folder;
  std::string whole;
  {
    RecordStore store(folder.path());
    store.append(sample_record("a"));
    whole = contents(store.path());
  }
  const std::string second = to_line(sample_record("b")) + "\n";
  for (std::size_t cut = 0; cut <= second.size(); cut += cut + 40 < second.size() ? 37 : 1) {
    std::ofstream(folder / kResultsFile, std::ios::trunc) << whole << second.substr(0, cut);
    EXPECT_EQ(load_records(folder.path()).size(), cut == second.size() ? 2U : 1U);
    RecordStore store(folder.path());
    EXPECT_EQ(store.records().all().size(), cut == second.size() ? 2U : 1U) << cut;
    EXPECT_EQ(contents(store.path()), cut == second.size() ? whole + second : whole);
  }
}

TEST(RecordStore, IsForOneRunnerAtATime) {
  const Folder folder;
  {
    const RecordStore first(folder.path());
    EXPECT_THAT([&] { RecordStore second(folder.path()); }, ThrowsMessage<InputError>(HasSubstr("in use")));
    EXPECT_NO_THROW(load_records(folder.path()));
  }
  EXPECT_NO_THROW(RecordStore(folder.path()));
}

TEST(RecordStore, SaysWhichLineIsNoRecord) {
  const Folder folder;
  std::ofstream(folder / kResultsFile) << to_line(sample_record("a")) << "\n{\"schema\":1}\n";
  EXPECT_THAT([&] { RecordStore store(folder.path()); },
              ThrowsMessage<InputError>(HasSubstr("results.jsonl:2: id: missing; expected a text")));
}

TEST(RecordStore, RefusesAFolderThatCannotBeWritten) {
  const Folder folder;
  std::ofstream(folder / "file") << "x";
  EXPECT_THROW(RecordStore(folder / "file"), InputError);
  EXPECT_THROW(RecordStore(folder / "file/below"), InputError);
  EXPECT_THROW(RecordStore("/proc/nowhere"), InputError);
  fs::create_directory(folder / kResultsFile);
  EXPECT_THROW(RecordStore(folder.path()), InputError);
  EXPECT_THROW(load_records(folder.path()), InputError);
  EXPECT_THROW(load_records(folder / "missing"), InputError);
  EXPECT_EQ(contents(folder / "file"), "x");
}

TEST(RecordStore, SaysThatItsFileHasGone) {
  const Folder folder;
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
    const std::string results = folder / c.name;
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
  const Folder folder;
  RecordStore store(folder.path());
  store.append(sample_record("a"));
  const std::string before = contents(store.path());
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
  EXPECT_EQ(contents(store.path()), before);
  EXPECT_EQ(store.records().find("b"), nullptr);
  store.append(sample_record("b"));
  EXPECT_EQ(load_records(folder.path()).size(), 2U);
}

TEST(RecordStore, LosesNothingWhenItsWriterIsKilled) {
  const Folder folder;
  std::mt19937 random(11);
  std::size_t known = 0;
  const auto size = [&] {
    std::error_code absent;
    const auto bytes = std::filesystem::file_size(folder.path() + "/" + kResultsFile, absent);
    return absent ? 0 : bytes;
  };
  for (int round = 0; round < 20; ++round) {
    const auto before = size();
    const pid_t writer = fork();
    if (writer == 0) {
      RecordStore store(folder.path());
      for (int i = 0;; ++i) store.append(sample_record(std::to_string(round) + "-" + std::to_string(i)));
    }
    // Killed somewhere in its writing, however slowly the machine lets it begin.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (size() == before && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
    kill(writer, SIGKILL);
    waitpid(writer, nullptr, 0);
    const RecordStore store(folder.path());
    EXPECT_GE(store.records().all().size(), known);
    known = store.records().all().size();
    const std::string text = contents(store.path());
    EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), known);
  }
  EXPECT_GT(known, 0U);
}

}  // namespace
}  // namespace plumbline
