// The matrix runner: every ending of a cell becomes a row, finished cells are not repeated, and neither
// Ctrl-C nor a kill loses a row.
#include "bench/matrix/matrix_runner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "bench/evaluate/cell_process.hpp"
#include "core/base/error.hpp"
#include "core/config_text/matrix_config.hpp"
#include "tests/bench/record/record_support.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class MatrixRunner : public ::testing::Test {
 protected:
  MatrixRunner() { folder_ = mkdtemp(folder_.data()); }
  ~MatrixRunner() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    std::fclose(log_);
  }

  static MatrixCell cell(const std::string& id) {
    MatrixCell made;
    made.id = id;
    made.values = {{"seed", id}};
    made.config.model = *find_preset(preset_names().front());
    made.config.parallel.world_size = 2;
    made.config.parallel.tensor = 2;
    made.config.measure.timeout_s = 300;
    return made;
  }
  static std::string good_measurement() {
    return OrderedJson{{"measurement", to_json(*sample_record("x").measurement)}}.dump();
  }
  /// Hooks whose cells run the fake program with the words that `behaviour` has for their id.
  MatrixHooks hooks(const std::map<std::string, std::vector<std::string>>& behaviour) {
    return {[this](const MatrixCell& at, Record& record) {
              predicted_.push_back(at.id);
              if (at.id == "unpredictable") throw Error("no profile");
              if (at.id == "contradiction") throw InputError("sizes contradict each other");
              record.prediction = sample_record("x").prediction;
            },
            [this, behaviour](const MatrixCell& at, const std::function<bool()>& go_on, Record& record) {
              const CellProgram program{FAKE_RANKS, behaviour.at(at.id)};
              const CellRun run{folder_ + "/cells", at.id, go_on, {}};
              return measure_cell(at.config, program, run, record);
            },
            sample_record("x").machine};
  }
  MatrixOutcome run(const std::vector<MatrixCell>& cells, const MatrixHooks& with,
                    MatrixOptions options = {}) {
    RecordStore store(folder_);
    Progress progress(static_cast<int>(cells.size()), 0, log_, false);
    return run_matrix(cells, store, with, options, progress);
  }
  /// A program that a killed runner was about to start holds the lock of the results until it is started.
  void wait_until_free() {
    for (int attempt = 0;; ++attempt) {
      try {
        const RecordStore store(folder_);
        return;
      } catch (const InputError&) {
        if (attempt == 6000) throw;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }
  std::string said() {
    std::rewind(log_);
    std::string text(100'000, 0);
    text.resize(std::fread(text.data(), 1, text.size(), log_));
    return text;
  }

  std::string folder_ = (fs::temp_directory_path() / "matrix_test_XXXXXX").string();
  std::FILE* log_ = std::tmpfile();
  std::vector<std::string> predicted_;
};

TEST_F(MatrixRunner, MakesARowOfEveryEnding) {
  struct Case {
    const char* id;
    std::vector<std::string> behaviour;
    Status status;
    const char* reason;
  };
  const Case cases[] = {
      {"fits", {"write", good_measurement()}, Status::ok, ""},
      {"too_large", {"throw"}, Status::oom, "rank 1: no room for 7 bytes"},
      {"refused", {"exit", "2"}, Status::invalid, "rank 1 ended with exit code 2"},
      {"crashes", {"segfault"}, Status::failed, "rank 1 was killed by signal 11"},
      {"killed", {"killed"}, Status::failed, "signal 9 (Killed) from outside"},
      {"hangs", {"hang"}, Status::timeout, "still running after"},
      {"silent", {"say"}, Status::failed, "wrote no measurement"},
      {"garbage",
       {"write", "{\"measurement\":{}}"},
       Status::failed,
       "measurement.memory: missing; expected a JSON object"},
      {"indivisible", {}, Status::invalid, "3 does not divide 4"},
      {"unpredictable", {}, Status::failed, "prediction: no profile"},
      {"contradiction", {}, Status::invalid, "sizes contradict"},
      {"not_yet", {}, Status::unsupported, ""},
      {"last", {"write", good_measurement()}, Status::ok, ""},
  };
  std::vector<MatrixCell> cells;
  std::map<std::string, std::vector<std::string>> behaviour;
  for (const Case& c : cases) {
    behaviour[c.id] = c.behaviour;
    cells.push_back(cell(c.id));
    if (c.status == Status::timeout) cells.back().config.measure.timeout_s = 0.5;
    if (c.status == Status::unsupported) cells.back().config.numerics.precision = DType::fp16;
    if (cells.back().id == "indivisible") cells.back().invalid = "3 does not divide 4";
  }
  const MatrixOutcome outcome = run(cells, hooks(behaviour));
  EXPECT_EQ(outcome.done_now, static_cast<int>(std::size(cases)));
  EXPECT_FALSE(outcome.stopped);

  const auto records = load_records(folder_);
  ASSERT_EQ(records.size(), std::size(cases));
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].id, cases[i].id);
    EXPECT_EQ(name_of(records[i].status), name_of(cases[i].status)) << cases[i].id << records[i].reason;
    EXPECT_THAT(records[i].reason, HasSubstr(cases[i].reason));
    EXPECT_EQ(records[i].machine.host, "host");
    EXPECT_EQ(records[i].measurement.has_value(), cases[i].status == Status::ok);
    EXPECT_EQ(records[i].error.has_value(), cases[i].status == Status::ok);
    EXPECT_EQ(records[i].reason.empty(), cases[i].status == Status::ok);
  }
  EXPECT_TRUE(records[1].prediction) << "a cell that does not fit keeps its prediction";
  EXPECT_TRUE(fs::exists(folder_ + "/cells/crashes.log"));
  EXPECT_TRUE(fs::exists(folder_ + "/cells/crashes.yaml"));
  EXPECT_FALSE(fs::exists(folder_ + "/cells/fits.yaml"));
  EXPECT_THAT(said(), HasSubstr("[1/13] seed fits: ok ("));
  EXPECT_THAT(said(), HasSubstr("[2/13] seed too_large: oom: rank 1: no room for 7 bytes ("));

  // Again: nothing to do. With retry: all cells that are neither ok nor oom.
  predicted_.clear();
  EXPECT_EQ(run(cells, hooks(behaviour)).done_before, static_cast<int>(std::size(cases)));
  EXPECT_TRUE(predicted_.empty());
  behaviour["hangs"] = behaviour["crashes"] = behaviour["killed"] = behaviour["fits"];
  behaviour["silent"] = behaviour["garbage"] = behaviour["fits"];
  for (MatrixCell& cell : cells)
    cell.config.measure.timeout_s = 300;  // a busy machine starts a cell in more than 0.5 s
  EXPECT_EQ(run(cells, hooks(behaviour), {.retry = true}).done_now, 10);
  const auto after = load_records(folder_);
  EXPECT_EQ(after.size(), std::size(cases));
  EXPECT_EQ(std::count_if(after.begin(), after.end(), [](const Record& r) { return r.status == Status::ok; }),
            7);
}

TEST_F(MatrixRunner, MeasuresEveryCellInEveryRoundOnce) {
  Record one = sample_record("x");
  one.measurement->rounds = 1;
  const std::string measurement = OrderedJson{{"measurement", to_json(*one.measurement)}}.dump();
  const std::map<std::string, std::vector<std::string>> behaviour = {{"a", {"write", measurement}},
                                                                     {"b", {"write", measurement}},
                                                                     {"large", {"throw"}},
                                                                     {"c", {"write", measurement}}};
  const std::vector<MatrixCell> cells = {cell("a"), cell("b"), cell("large"), cell("c")};
  run(cells, hooks(behaviour));  // once, without rounds
  predicted_.clear();
  run(cells, hooks(behaviour), {.rounds = 4});
  std::map<std::string, int> times;
  for (const std::string& id : predicted_) ++times[id];
  EXPECT_EQ(times, (std::map<std::string, int>{{"a", 3}, {"b", 3}, {"c", 3}}))
      << "the first is there already";
  for (std::size_t round = 0; round < 3; ++round) {
    const std::set<std::string> of_round(predicted_.begin() + static_cast<std::ptrdiff_t>(3 * round),
                                         predicted_.begin() + static_cast<std::ptrdiff_t>(3 * round + 3));
    EXPECT_EQ(of_round.size(), 3U) << "one round after the other";
  }
  for (const Record& record : load_records(folder_)) {
    if (record.status == Status::ok) {
      EXPECT_EQ(record.measurement->rounds, 4) << record.id;
      EXPECT_EQ(record.measurement->steps.size(), 12U) << record.id;
    }
  }
  predicted_.clear();
  EXPECT_EQ(run(cells, hooks(behaviour), {.rounds = 4}).done_before, 16);
  EXPECT_TRUE(predicted_.empty());
}

TEST_F(MatrixRunner, PredictsOnly) {
  MatrixHooks only = hooks({});
  only.measure = nullptr;
  const auto predict = only.predict;
  only.predict = [predict](const MatrixCell& at, Record& record) {
    predict(at, record);
    record.prediction->fits = at.id != "large";
  };
  run({cell("small"), cell("large")}, only);
  const auto records = load_records(folder_);
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].status, Status::ok);
  EXPECT_EQ(records[1].status, Status::oom);
}

TEST_F(MatrixRunner, NamesCellsOfAnotherMatrix) {
  MatrixHooks only = hooks({});
  only.measure = nullptr;
  run({cell("first"), cell("both")}, only);
  EXPECT_THAT(said(), ::testing::Not(HasSubstr("another matrix")));
  run({cell("both"), cell("second")}, only);
  EXPECT_THAT(said(), HasSubstr("holds 1 cells of another matrix"));
}

TEST_F(MatrixRunner, StopsAtASignalAndGoesOnLater) {
  std::map<std::string, std::vector<std::string>> behaviour = {
      {"a", {"write", good_measurement()}}, {"b", {"hang"}}, {"c", {"write", good_measurement()}}};
  const std::vector<MatrixCell> cells = {cell("a"), cell("b"), cell("c")};
  for (int signal : {SIGINT, SIGTERM}) {
    MatrixHooks interrupted = hooks(behaviour);
    const auto measure = interrupted.measure;
    interrupted.measure = [&](const MatrixCell& at, const std::function<bool()>& go_on, Record& record) {
      int ticks = 0;
      return measure(
          at,
          [&] {
            if (at.id == "b" && ++ticks == 3) std::raise(signal);
            return go_on();
          },
          record);
    };
    const MatrixOutcome outcome = run(cells, interrupted);
    EXPECT_TRUE(outcome.stopped);
    EXPECT_EQ(load_records(folder_).size(), 1U);
    EXPECT_THAT(said(), HasSubstr("stopped: 1 of 3 cells are done; the same command does the rest\n"));
  }
  behaviour["b"] = behaviour["a"];
  const MatrixOutcome outcome = run(cells, hooks(behaviour));
  EXPECT_EQ(outcome.done_before, 1);
  EXPECT_EQ(outcome.done_now, 2);
  EXPECT_FALSE(outcome.stopped);
}

TEST_F(MatrixRunner, AKillLosesNoFinishedCell) {
  std::vector<MatrixCell> cells;
  std::map<std::string, std::vector<std::string>> behaviour;
  for (int i = 0; i < 6; ++i) {
    cells.push_back(cell("cell" + std::to_string(i)));
    behaviour[cells.back().id] = {"write", good_measurement()};
  }
  std::size_t known = 0;
  for (int delay_ms : {20, 90, 150, 260, 400}) {
    const pid_t runner = fork();
    if (runner == 0) {
      run(cells, hooks(behaviour));
      _exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
    kill(runner, SIGKILL);
    waitpid(runner, nullptr, 0);
    if (!fs::exists(folder_ + "/" + kResultsFile)) continue;
    wait_until_free();
    const std::size_t now = load_records(folder_).size();
    EXPECT_GE(now, known);
    known = now;
  }
  const MatrixOutcome outcome = run(cells, hooks(behaviour));
  EXPECT_EQ(outcome.done_before, static_cast<int>(known));
  EXPECT_EQ(load_records(folder_).size(), cells.size());
}

TEST_F(MatrixRunner, AFolderThatGoesAwayEndsTheMatrix) {
  const std::map<std::string, std::vector<std::string>> behaviour = {{"a", {"write", good_measurement()}},
                                                                     {"b", {"write", good_measurement()}}};
  const std::string moved = folder_ + "-moved";
  for (const bool before_it_ends : {true, false}) {
    MatrixHooks hooks_here = hooks(behaviour);
    const auto measure = hooks_here.measure;
    hooks_here.measure = [&](const MatrixCell& at, const std::function<bool()>& go_on, Record& record) {
      if (before_it_ends) fs::rename(folder_, moved);
      const bool done = measure(at, go_on, record);
      if (!before_it_ends) fs::rename(folder_, moved);
      return done;
    };
    EXPECT_THAT(
        [&] {
          run({cell("a"), cell("b")}, hooks_here);
        },
        ThrowsMessage<Error>(HasSubstr("results.jsonl: removed or moved while it is written")));
    EXPECT_FALSE(fs::exists(folder_)) << "made again, for nobody";
    fs::remove_all(folder_);
    fs::rename(moved, folder_);
    EXPECT_EQ(load_records(folder_).size(), before_it_ends ? 0U : 1U);
  }
}

TEST_F(MatrixRunner, WhatIsStoredBesideAMeasurementMayFail) {
  OrderedJson file = OrderedJson::parse(good_measurement());
  file[kUnsavedKey] = "timelines/a.json: cannot be written: No space left on device";
  fs::create_directories(folder_ + "/cells/crashes.log");  // in the way of the log
  std::vector<std::string> unsaved;
  Record record;
  CellRun beside{folder_ + "/cells", "a", {}, {}, [&](const std::string& why) { unsaved.push_back(why); }};
  EXPECT_TRUE(measure_cell(cell("a").config, {FAKE_RANKS, {"write", file.dump()}}, beside, record));
  EXPECT_EQ(record.status, Status::ok) << record.reason;
  EXPECT_TRUE(record.measurement);
  beside.name = "crashes";
  EXPECT_TRUE(measure_cell(cell("a").config, {FAKE_RANKS, {"segfault"}}, beside, record));
  EXPECT_EQ(record.status, Status::failed);
  EXPECT_THAT(record.reason, HasSubstr("signal 11"));
  ASSERT_EQ(unsaved.size(), 2U);
  EXPECT_THAT(unsaved[0], HasSubstr("No space left"));
  EXPECT_THAT(unsaved[1], HasSubstr("crashes.log: cannot be written: Is a directory"));
}

TEST_F(MatrixRunner, AMeasurementThatCannotBeStoredIsNoFailedCell) {
  fs::create_directories(folder_ + "/cells");
  const std::string path = fs::absolute(folder_).string() + "/cells/a.measurement";
  Record record;
  EXPECT_THAT(
      [&] {
        measure_cell(cell("a").config, {FAKE_RANKS, {"complain", path + ": cannot be written: disk full"}},
                     {folder_ + "/cells", "a", {}, {}}, record);
      },
      ThrowsMessage<InputError>(HasSubstr("disk full")));
}

TEST_F(MatrixRunner, ASupervisorThatIsToldToEndEndsTheMatrix) {
  std::map<std::string, std::vector<std::string>> behaviour = {{"a", {"hang"}}, {"b", {"hang"}}};
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) {
    MatrixHooks told = hooks(behaviour);
    const auto measure = told.measure;
    told.measure = [&](const MatrixCell& at, const std::function<bool()>& go_on, Record& record) {
      int ticks = 0;
      const auto tell = [&] {
        std::error_code gone;
        for (fs::directory_iterator entry("/proc", gone), end; !gone && entry != end; entry.increment(gone)) {
          std::ostringstream status;
          status << std::ifstream(entry->path() / "stat").rdbuf();
          int process = 0;
          char name[64] = "";
          char state = 0;
          int parent = 0;
          if (std::sscanf(status.str().c_str(), "%d (%63[^)]) %c %d", &process, name, &state, &parent) == 4 &&
              parent == getpid()) {
            kill(process, signal);
          }
        }
      };
      return measure(
          at,
          [&] {
            if (++ticks == 1 + signal) tell();
            return go_on();
          },
          record);
    };
    const MatrixOutcome outcome = run({cell("a"), cell("b")}, told);
    EXPECT_TRUE(outcome.stopped) << signal;
    EXPECT_TRUE(load_records(folder_).empty());
  }
}

TEST_F(MatrixRunner, DoesNotStartWhenNothingCanBeMeasured) {
  MatrixHooks broken = hooks({});
  broken.measure = [](const MatrixCell&, const std::function<bool()>&, Record&) -> bool {
    throw InputError("out of reach");
  };
  EXPECT_THROW(run({cell("a")}, broken), InputError);
  EXPECT_TRUE(load_records(folder_).empty());
}

TEST(ProgressLines, HoldNothingThatATerminalObeys) {
  std::FILE* out = std::tmpfile();
  {
    Progress progress(2, 0, out, false);
    progress.begin("hardware \x1b[2J\nname");
    progress.say("a note\nof two lines \x1b]0;title\x07");
    progress.end("failed: \x1b[31m");
  }
  std::rewind(out);
  std::string text(10'000, 0);
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  EXPECT_EQ(text.find_first_of("\x1b\x07"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_THAT(text, HasSubstr("hardware ?[2J?name: failed: ?[31m"));
}

TEST(ProgressLines, ShowTimeLeft) {
  std::FILE* out = std::tmpfile();
  {
    Progress progress(3, 1, out, true);
    progress.begin("tp 1");
    progress.tick();
    progress.end("ok");
    progress.begin("tp 2");
  }
  std::rewind(out);
  std::string text(10'000, 0);
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  EXPECT_THAT(text, HasSubstr("[########................] 1/3"));
  EXPECT_THAT(text, AllOf(HasSubstr("[2/3] tp 1: ok ("), HasSubstr(" s), about "), HasSubstr(" s left\n")));
  EXPECT_THAT(text, HasSubstr("[################........] 2/3"));
  EXPECT_EQ(readable_duration(59), "59 s");
  EXPECT_EQ(readable_duration(190), "3 min 10 s");
  EXPECT_EQ(readable_duration(7500), "2 h 05 min");
}

}  // namespace
}  // namespace plumbline
