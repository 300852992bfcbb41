// The matrix runner: every ending of a cell becomes a row, and finished cells are not repeated.
#include "bench/matrix/matrix_runner.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "core/base/atomic_file.hpp"
#include "core/config_text/matrix_config.hpp"
#include "tests/bench/matrix/matrix_cells.hpp"

namespace plumbline::matrix_runner_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using MatrixRunner = test::MatrixCells;

TEST_F(MatrixRunner, MakesARowOfEveryEnding) {
  struct Case {
    const char* id;
    std::vector<std::string> behaviour;
    Status status;
    const char* reason;
  };
  const Case cases[] = {
      {"fits", good(), Status::ok, ""},
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
      {"last", good(), Status::ok, ""},
  };
  std::vector<MatrixCell> cells;
  Behaviour behaviour;
  for (const Case& c : cases) {
    behaviour[c.id] = c.behaviour;
    cells.push_back(cell(c.id));
    if (c.status == Status::timeout) cells.back().config.measure.timeout_s = 0.5;
    if (c.status == Status::unsupported) {
      RunConfig& config = cells.back().config;
      config.parallel.context = config.parallel.world_size = 2;
      config.numerics.attention_backend = AttentionBackend::unfused;
    }
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
  const Behaviour behaviour = {{"a", {"write", measurement}},
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
      ThrowsMessage<OutputError>(HasSubstr("disk full")));
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
  const std::string text = test::text_of(out);
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
  const std::string text = test::text_of(out);
  std::fclose(out);
  EXPECT_THAT(text, HasSubstr("[########................] 1/3"));
  EXPECT_THAT(text, AllOf(HasSubstr("[2/3] tp 1: ok ("), HasSubstr(" s), about "), HasSubstr(" s left\n")));
  EXPECT_THAT(text, HasSubstr("[################........] 2/3"));
  EXPECT_EQ(readable_duration(59), "59 s");
  EXPECT_EQ(readable_duration(190), "3 min 10 s");
  EXPECT_EQ(readable_duration(7500), "2 h 05 min");
}

}  // namespace
}  // namespace plumbline::matrix_runner_test
