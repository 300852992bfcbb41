// Nothing lost, nothing left behind: full disks, closed and broken streams, signals, folders that go away.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::leftovers_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class Leftovers : public ProgramFolder {
 protected:
  Leftovers() {
    const std::string run = kSmallRun + std::string(
                                            "backend: emulated\n"
                                            "hardware: h100-sxm-80gb\n");
    write("run.yaml", run + "steps: 2\n");
    write("long.yaml", run + "steps: 1000000\nemulated_time_factor: 1\n");
    write("matrix.yaml", run + "steps: 1\nmatrix:\n  micro_batch_size: [1, 2]\n");
    write("costs.json", R"({"stages": [{"forward_us": 100, "backward_us": 200}]})");
  }

  int plumbline(const std::string& arguments, const std::string& before = "") const {
    return ProgramFolder::plumbline(arguments, before).exit_code;
  }
  /// Ids of whole records; adds a failure for a line that is none.
  std::size_t records(const std::string& file) const {
    std::istringstream lines(read(file));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line); ++count)
      EXPECT_TRUE(nlohmann::json::accept(line)) << line.substr(0, 80);
    return count;
  }
  bool temporary_is_empty() const { return fs::is_empty(folder_ / "tmp"); }
};

TEST_F(Leftovers, AClosedStandardErrorKeepsProgressOutOfTheResults) {
  for (const char* closed : {"2>&-", "2>&- 1>&-", "0<&- 1>&- 2>&-"}) {
    fs::remove_all(folder_ / "out");
    EXPECT_EQ(plumbline(fmt::format("matrix matrix.yaml --predict-only --out out {}", closed)), 0) << closed;
    EXPECT_EQ(records("out/predictions.jsonl"), 2U) << closed;
  }
}

TEST_F(Leftovers, NobodyReadsTheProgressOfAHealthyMatrix) {
  for (const char* to : {"2>/dev/full", "2> >(true)"}) {
    fs::remove_all(folder_ / "out");
    const std::string command = fmt::format("matrix matrix.yaml --out out >out.txt {}", to);
    EXPECT_EQ(std::system(("bash -c '" + environment() + PLUMBLINE_PROGRAM + " " + command + "'").c_str()),
              0);
    EXPECT_EQ(records("out/results.jsonl"), 2U);
    EXPECT_THAT(read("out.txt"), HasSubstr("2 cells: 2 ok"));
  }
}

TEST_F(Leftovers, AFullDiskIsSaid) {
  ASSERT_EQ(plumbline("matrix matrix.yaml --predict-only --out out"), 0);
  const std::string simulate = "simulate --schedule 1f1b --pp 2 --microbatches 4 --costs costs.json ";
  for (const std::string& command :
       {std::string("compare out --format html"), std::string("compare out"), std::string("predict run.yaml"),
        std::string("help run"), std::string("--version"), std::string("--help"), simulate,
        std::string("schedule 1f1b --pp 8 --microbatches 64 --format json")}) {
    EXPECT_EQ(plumbline(command + " >/dev/full"), 4) << command;
    EXPECT_THAT(read("err.txt"), HasSubstr("plumbline: standard output: cannot be written")) << command;
  }
  EXPECT_EQ(plumbline(simulate + "--svg small.svg", "ulimit -f 0;"), 4);
  EXPECT_EQ(read("err.txt").find('\n'), std::string::npos);  // not even the error fits into a file
  EXPECT_FALSE(fs::exists(folder_ / "small.svg"));
  EXPECT_FALSE(fs::exists(folder_ / "small.svg.partial"));
  // A reader that stops reading.
  const std::string reader = std::string("set -o pipefail; ") + PLUMBLINE_PROGRAM +
                             " schedule 1f1b --pp 64 --microbatches 512 | true";
  EXPECT_EQ(std::system((environment() + "bash -c '" + reader + "'").c_str()), 0);
}

TEST_F(Leftovers, ACellWhoseTimelineCannotBeStoredIsWell) {
  fs::create_directories(folder_ / "out");
  write("out/timelines", "in the way");
  EXPECT_EQ(plumbline("matrix matrix.yaml --out out"), 0);
  EXPECT_THAT(read("out.txt"), HasSubstr("2 cells: 2 ok"));
  EXPECT_THAT(read("err.txt"), HasSubstr("note: "));
  EXPECT_THAT(read("err.txt"), HasSubstr("cannot be written: Not a directory"));
}

TEST_F(Leftovers, ATraceThatCannotBeStoredIsAnErrorAfterTheRecord) {
  EXPECT_EQ(plumbline("run run.yaml --json --trace none/trace.json"), 4);  // before anything runs
  EXPECT_EQ(read("out.txt"), "");
  fs::create_symlink("/dev/full", folder_ / "full.json");
  EXPECT_EQ(plumbline("run run.yaml --json --trace full.json"), 4);
  EXPECT_EQ(nlohmann::json::parse(read("out.txt"))["status"], "ok");
  EXPECT_THAT(read("err.txt"), HasSubstr("plumbline: "));
  EXPECT_THAT(read("err.txt"), HasSubstr("full.json: cannot be written: No space left"));
}

TEST_F(Leftovers, ASignalLeavesNoFolder) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGKILL}) {
    SCOPED_TRACE(signal);
    const pid_t run = ::fork();
    if (run == 0) {
      const std::string command = environment() + "exec " + PLUMBLINE_PROGRAM +
                                  " run long.yaml --emulated-time-factor 1 >out.txt 2>err.txt";
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (temporary_is_empty() && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ::kill(run, signal);
    int status = 0;
    ::waitpid(run, &status, 0);
    if (signal == SIGKILL) {
      EXPECT_TRUE(WIFSIGNALED(status));
      EXPECT_FALSE(temporary_is_empty());
      EXPECT_EQ(plumbline("schedule 1f1b --pp 2 --microbatches 2"), 0);  // any command
    } else {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 4) << status;
      EXPECT_THAT(read("err.txt"), HasSubstr("plumbline: stopped"));
    }
    EXPECT_TRUE(temporary_is_empty());
  }
}

TEST_F(Leftovers, AnAccidentalVariableConfusesNothing) {
  for (const char* value : {"1", "999999999", "x"}) {
    EXPECT_EQ(plumbline("predict run.yaml", fmt::format("export PLUMBLINE_LAUNCHER_PID={};", value)), 0);
    EXPECT_THAT(read("out.txt"), testing::Not(testing::IsEmpty()));
  }
}

TEST_F(Leftovers, DeepAndLargeFilesAreRefusedAtOnce) {
  write("deep.json", std::string(100'000, '['));
  write("deep.csv", std::string(100'000, '['));
  write("deep.yaml", "model: " + std::string(100'000, '['));
  write("deeper.yaml", std::string(100'000, '{'));
  write("deep.jsonl", std::string(100'000, '[') + "\n");
  write("mapping.json", [] {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += "{\"a\":";
    return text;
  }());
  write("large.json", "{");
  fs::resize_file(folder_ / "large.json", std::uintmax_t{1} << 34);
  for (const std::string& command :
       {std::string("predict run.yaml --hardware ./deep.json"), std::string("predict deep.yaml"),
        std::string("predict run.yaml --hardware ./mapping.json"), std::string("predict deeper.yaml"),
        std::string("predict run.yaml --hardware ./large.json"), std::string("predict large.json"),
        std::string("compare deep.jsonl"), std::string("compare large.json"),
        std::string("compare deep.jsonl --format html"), std::string("schedule deep.json"),
        std::string("schedule deep.csv"), std::string("schedule large.json"),
        std::string("predict run.yaml --set model=deep.json"),
        std::string("predict run.yaml --set model=large.json"),
        std::string("simulate --schedule 1f1b --pp 2 --microbatches 4 --costs deep.json"),
        std::string("simulate --schedule 1f1b --pp 2 --microbatches 4 --costs large.json")}) {
    EXPECT_EQ(plumbline(command, "ulimit -v 2000000;"), 2) << command;
    const std::string said = read("err.txt");
    EXPECT_THAT(said, StartsWith("plumbline: ")) << command;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << command << said;
  }
}

}  // namespace
}  // namespace plumbline::leftovers_test
