// Completion: the program's answers, and bash's use of them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "bench/commands/help/completion.hpp"
#include "core/base/error.hpp"
#include "tests/bench/commands/program_folder.hpp"

namespace plumbline::completion_test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

/// A folder of the test's own with a few files to complete.
class Completion : public ProgramFolder {
 protected:
  Completion() {
    for (const char* name : {"run.yaml", "demo.yaml", "costs.json", "notes.txt"}) write(name, "\n");
    fs::remove(folder_ / "tmp");
    fs::create_directory(folder_ / "results");
    fs::create_directory(folder_ / "bin");
    fs::create_symlink(PLUMBLINE_PROGRAM, folder_ / "bin/plumbline");
  }

  std::vector<std::string> lines_of(const std::string& command) const {
    const std::string whole =
        fmt::format("cd {0} && PATH={0}/bin:$PATH {1} >out.txt 2>err.txt", folder_.string(), command);
    const int status = std::system(whole.c_str());
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command;
    std::ifstream file(folder_ / "out.txt");
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  /// Answer of the program, without descriptions.
  std::vector<std::string> asked(const std::string& words) const {
    std::vector<std::string> lines = lines_of("plumbline complete -- " + words);
    for (std::string& line : lines) line = line.substr(0, line.find('\t'));
    return lines;
  }

  /// Candidates of bash when Tab is pressed at the end of `line`.
  std::vector<std::string> offered(const std::string& line) const {
    std::ofstream(folder_ / "tab.sh")
        << "eval \"$(plumbline completion bash)\"\n"
        << "complete -p plumbline >/dev/null || exit 1\n"
        << "COMP_LINE='" << line << "'\nCOMP_POINT=${#COMP_LINE}\n"
        << "_plumbline\nfor each in \"${COMPREPLY[@]}\"; do echo \"$each\"; done\n";
    return lines_of("bash --norc tab.sh");
  }
};

TEST_F(Completion, KnowsCommandsOptionsAndValues) {
  EXPECT_THAT(asked("''"), Contains("predict"));
  EXPECT_THAT(asked("''"), Not(Contains("complete")));
  EXPECT_THAT(asked("sch"), ElementsAre("schedule"));
  EXPECT_THAT(asked("run --tensor-"), ElementsAre("--tensor-model-parallel-size"));
  EXPECT_THAT(asked("run run.yaml --time"), UnorderedElementsAre("--timeline", "--timeout-s"));
  EXPECT_THAT(asked("run --timelines"), IsEmpty());  // hidden
  EXPECT_THAT(asked("matrix x.yaml --qu"), ElementsAre("--quiet"));
  EXPECT_THAT(asked("compare dir --format m"), ElementsAre("megatron-bridge"));
  EXPECT_THAT(asked("compare dir --format=c"), ElementsAre("--format=csv"));
  EXPECT_THAT(asked("predict --model qwen2.5-0"), Contains("qwen2.5-0.5b"));
  EXPECT_THAT(asked("predict --hardware h100"), Contains("h100-sxm-80gb"));
  EXPECT_THAT(asked("predict --software vl"), ElementsAre("vllm", "vllm-v0", "vllm-v1"));
  EXPECT_THAT(asked("predict --software megatron-core-202"), Contains("megatron-core-2026"));
  EXPECT_THAT(asked("predict --precision ''"), ElementsAre("fp32", "bf16", "fp16", "fp8"));
  EXPECT_THAT(asked("predict --recompute-granularity ''"), ElementsAre("none", "selective", "full"));
  EXPECT_THAT(asked("predict --sequence-parallel ''"), ElementsAre("true", "false"));
  EXPECT_THAT(asked("schedule zb-"),
              UnorderedElementsAre("zb-h1", "zb-h2", "zb-auto", "zb-v", ":files csv json"));
  EXPECT_THAT(asked("schedule 1f1b --compare gpipe,zb-h"),
              UnorderedElementsAre("gpipe,zb-h1", "gpipe,zb-h2"));
  EXPECT_THAT(asked("run run.yaml --set zero_s"), ElementsAre("zero_stage="));
  EXPECT_THAT(asked("run run.yaml --set backend=e"), ElementsAre("backend=emulated"));
  EXPECT_THAT(asked("matrix ''"), ElementsAre(":files yaml yml"));
  EXPECT_THAT(asked("compare ''"), ElementsAre(":folders"));
  EXPECT_THAT(asked("completion ''"), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(asked("help sea"), ElementsAre("search"));
  EXPECT_THAT(asked("validate --table zero"), Contains("zero_bubble_table5"));
  EXPECT_THAT(asked("nonsense --x"), IsEmpty());
}

TEST_F(Completion, BashOffersThem) {
  EXPECT_THAT(offered("plumbline pre"), ElementsAre("predict"));
  EXPECT_THAT(offered("plumbline run --tensor-"), ElementsAre("--tensor-model-parallel-size"));
  EXPECT_THAT(offered("plumbline schedule dualpipe"), UnorderedElementsAre("dualpipe", "dualpipev"));
  EXPECT_THAT(offered("plumbline predict --hardware a100"), Contains("a100-sxm-80gb"));
  EXPECT_THAT(offered("plumbline matrix "), UnorderedElementsAre("run.yaml", "demo.yaml", "results", "bin"));
  EXPECT_THAT(offered("plumbline matrix de"), ElementsAre("demo.yaml"));
  EXPECT_THAT(offered("plumbline compare "), UnorderedElementsAre("results", "bin"));
  EXPECT_THAT(offered("plumbline simulate --costs c"), ElementsAre("costs.json"));
  // bash replaces only the text after "=".
  EXPECT_THAT(offered("plumbline run run.yaml --set backend=e"), ElementsAre("emulated"));
  EXPECT_THAT(offered("plumbline compare x --format=ht"), ElementsAre("html"));
}

TEST_F(Completion, ScriptsForEveryShell) {
  for (const char* shell : {"bash", "zsh", "fish"})
    EXPECT_NE(completion_script(shell).find("complete -- "), std::string::npos);
  EXPECT_THROW(completion_script("csh"), InputError);
}

}  // namespace
}  // namespace plumbline::completion_test
