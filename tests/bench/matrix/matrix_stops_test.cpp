// Neither Ctrl-C nor a kill loses a row of a matrix.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sstream>

#include "tests/bench/matrix/matrix_cells.hpp"

namespace plumbline::matrix_stops_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using MatrixStops = test::MatrixCells;

/// A signal for all children of this process.
void tell_children(int signal) {
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
}

TEST_F(MatrixStops, StopsAtASignalAndGoesOnLater) {
  Behaviour behaviour = {{"a", good()}, {"b", {"hang"}}, {"c", good()}};
  const std::vector<MatrixCell> cells = {cell("a"), cell("b"), cell("c")};
  for (int signal : {SIGINT, SIGTERM}) {
    const MatrixOutcome outcome = run(cells, ticking(behaviour, [&](const std::string& id, int ticks) {
                                        if (id == "b" && ticks == 3) std::raise(signal);
                                      }));
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

TEST_F(MatrixStops, AKillLosesNoFinishedCell) {
  std::vector<MatrixCell> cells;
  Behaviour behaviour;
  for (int i = 0; i < 6; ++i) {
    cells.push_back(cell("cell" + std::to_string(i)));
    behaviour[cells.back().id] = good();
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

TEST_F(MatrixStops, AFolderThatGoesAwayEndsTheMatrix) {
  const Behaviour behaviour = {{"a", good()}, {"b", good()}};
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

TEST_F(MatrixStops, ASupervisorThatIsToldToEndEndsTheMatrix) {
  Behaviour behaviour = {{"a", {"hang"}}, {"b", {"hang"}}};
  for (int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const MatrixOutcome outcome =
        run({cell("a"), cell("b")}, ticking(behaviour, [&](const std::string&, int ticks) {
              if (ticks == 1 + signal) tell_children(signal);
            }));
    EXPECT_TRUE(outcome.stopped) << signal;
    EXPECT_TRUE(load_records(folder_).empty());
  }
}

}  // namespace
}  // namespace plumbline::matrix_stops_test
