// Ends that are nobody's wish: command lines that contradict themselves, a system without threads, outputs
// that cannot be made. No command ends by a signal; each says why in one line, with the exit code for it.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "bench/commands/help/command_pages.hpp"
#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::program_ends_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::string kModel = "llama-3.1-8b --hardware h100-sxm-80gb --gpus 8 --gbs 8 --tp 8";
const std::string kGolden = PLUMBLINE_SOURCE_DIR "/tests/golden/llama";

class ProgramEnds : public ProgramFolder {
 protected:
  ProgramEnds() {
    write("run.yaml", std::string(kSmallRun) + "steps: 1\n");
    write("costs.json", R"({"stages": [{"forward_us": 100, "backward_us": 200}]})");
    write("ask.jsonl",
          R"({"ask":"search","threads":4,"max_cp":1,"keys":{"model":"gpt2-124m","hardware":"h100",)"
          R"("gpus":2,"gbs":4}})");
  }

  /// Lines on standard error that are no notes.
  static std::vector<std::string> complaints(const std::string& err) {
    std::vector<std::string> found;
    std::istringstream lines(err);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("plumbline: ")) found.push_back(line);
    }
    return found;
  }
};

TEST_F(ProgramEnds, NoCommandLineAborts) {
  const char* wrong[] = {R"(run.yaml --megatron-args "--num-layers 2")",
                         R"(--megatron-args "--num-layers 2" run.yaml)",
                         R"(--megatron-args "")",
                         R"(--megatron-args "x")",
                         R"(--megatron-args "--num-layers 2" -- "--num-layers 2")",
                         R"(run.yaml --set =1 --megatron-args "--x")",
                         R"(run.yaml --tp "" --nothing)"};
  for (const CommandPage& page : command_pages()) {
    if (page.name == "configuration" || page.name.empty()) continue;
    for (const char* arguments : wrong) {
      SCOPED_TRACE(fmt::format("plumbline {} {}", page.name, arguments));
      const Said said = plumbline(fmt::format("{} {} </dev/null", page.name, arguments));
      EXPECT_EQ(said.exit_code, 2) << said.err;
      EXPECT_EQ(complaints(said.err).size(), 1U) << said.err;
    }
  }
  const Said said = plumbline(R"(predict run.yaml --megatron-args "--num-layers 2")");
  EXPECT_THAT(said.err, HasSubstr("found with the configuration run.yaml, expected one of them"));
}

// Predictions do without more threads; what needs processes says so.
TEST_F(ProgramEnds, WithoutThreadsAndProcesses) {
  // Root has no such limit.
  const std::string user = geteuid() == 0 ? "setpriv --reuid=64711 --regid=64711 --clear-groups " : "";
  fs::permissions(folder_, fs::perms::all);
  fs::permissions(folder_ / "tmp", fs::perms::all);
  if (std::system((environment() + user + "prlimit --nproc=1 true 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "the limit cannot be set here";
  const std::string alone[] = {"predict " + kModel,
                               "search gpt2-124m --hardware h100 --gpus 2 --gbs 4 --max-cp 1 --threads 4",
                               "goodput " + kModel,
                               "stragglers " + kModel + " --jitter 2",
                               "validate --table korthikanti_table5",
                               "ask <ask.jsonl",
                               "convert " + kGolden + " converted{} --tp 2",
                               "doctor"};
  const std::string with_processes[] = {"run run.yaml", "generate run.yaml --max-new-tokens 2",
                                        "matrix run.yaml --out m{}", "oom run.yaml --out o{}"};
  const auto limited = [&](int limit, const std::string& command) {
    const std::string line =
        fmt::format("exec >out.txt 2>err.txt; exec {}prlimit --nproc={} {} --quiet {}", user, limit,
                    PLUMBLINE_PROGRAM, fmt::format(fmt::runtime(command), limit));
    const int status = std::system((environment() + line).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  };
  for (const int limit : {1, 2, 3}) {
    for (const std::string& command : alone) {
      EXPECT_EQ(limited(limit, command), 0) << limit << ": " << command << "\n" << read("err.txt");
      EXPECT_THAT(read("out.txt"), testing::Not(HasSubstr(R"("error")")));
    }
    for (const std::string& command : with_processes) {
      EXPECT_EQ(limited(limit, command), 4) << limit << ": " << command << "\n" << read("err.txt");
      EXPECT_EQ(complaints(read("err.txt")).size(), 1U) << read("err.txt");
      EXPECT_THAT(read("err.txt"), HasSubstr(fmt::format("ulimit -u {}", limit))) << command;
    }
  }
}

/// A command and its output's place.
struct Output {
  std::string command;
  bool folder = false;  // made by the command, and filled
  bool device = true;   // may be one, which is written in place
};

std::vector<Output> outputs() {
  const std::string pipeline = "simulate --schedule 1f1b --pp 2 --microbatches 4 --costs costs.json";
  return {{"predict " + kModel + " --svg"},
          {"predict " + kModel + " --trace"},
          {pipeline + " --svg"},
          {pipeline + " --trace"},
          {"validate --table korthikanti_table5 --plot"},
          {"goodput " + kModel + " --plot"},
          {"run run.yaml --trace"},
          {"run run.yaml --save-gradients", false, false},
          {"run run.yaml --save-weights", true},
          {"run run.yaml --checkpoint-interval 1 --checkpoint-dir", true},
          {"matrix run.yaml --out", true},
          {"matrix run.yaml --predict-only --out", true},
          {"matrix run.yaml --predict-only --share --out", true},
          {"oom run.yaml --predict-only --out", true},
          {"convert " + kGolden + " --tp 2", true}};
}

TEST_F(ProgramEnds, OutputsThatCannotBeMade) {
  write("file", "in the way");
  fs::create_symlink("/dev/full", folder_ / "full");
  const std::string long_name(300, 'x');
  for (const Output& output : outputs()) {
    for (const std::string& place : {std::string("file/x"), std::string("/proc/x"), long_name,
                                     std::string(output.folder || !output.device ? "/proc/x/y" : "full")}) {
      SCOPED_TRACE(output.command + " " + place.substr(0, 20));
      const Said said = plumbline(fmt::format("--quiet {} {}", output.command, place));
      EXPECT_EQ(said.exit_code, 4) << said.err;
      EXPECT_EQ(complaints(said.err).size(), 1U) << said.err;
    }
  }
  EXPECT_EQ(read("file"), "in the way");
}

// As on a full disk: nothing that is written fits.
TEST_F(ProgramEnds, OutputsWithoutRoom) {
  int number = 0;
  for (const Output& output : outputs()) {
    if (output.command.starts_with("run")) continue;  // its ranks write before, for themselves
    SCOPED_TRACE(output.command);
    const std::string place = fmt::format("place{}", ++number);
    const std::string inner = fmt::format(
        "(ulimit -f 0; exec {} --quiet {} {}) 2>&1 >/dev/null | cat >err.txt; exit ${{PIPESTATUS[0]}}",
        PLUMBLINE_PROGRAM, output.command, place);
    const int status = std::system((environment() + "bash -c '" + inner + "'").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 4) << read("err.txt");
    EXPECT_EQ(complaints(read("err.txt")).size(), 1U) << read("err.txt");
    EXPECT_FALSE(fs::exists(folder_ / place) && !output.folder);
  }
}

}  // namespace
}  // namespace plumbline::program_ends_test
