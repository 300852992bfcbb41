// Words of mpirun and of ranks: which rank they are from, and the reasons that they give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/launch_output.hpp"

namespace plumbline::launch_words_test {
namespace {

using ::testing::HasSubstr;

TEST(LaunchWords, PassesOnWhatMpirunSays) {
  LaunchResult result;
  result.exit_code = 1;
  result.mpirun_output =
      "[vm:1] noise\n-----\nThe listener thread failed to start. We cannot\ncontinue.\n-----\nmore\n";
  EXPECT_EQ(result.reason(),
            "mpirun ended with exit code 1: The listener thread failed to start. We cannot continue.");
  result.standard_error = "[rank 1] first\n[rank 1] [vm:7] trace\n[rank 0] other\n";
  EXPECT_EQ(result.reason(), "mpirun ended with exit code 1: other");
  result.rank = 1;
  EXPECT_EQ(result.reason(), "rank 1 ended with exit code 1: first");
  // Whole sentences: not the end of Open MPI's box, and the next paragraph of one that ends with a colon.
  result.standard_error =
      "[rank 1] first\n[rank 1] *** MPI_ERRORS_ARE_FATAL (processes will abort,\n[rank 1] ***    and your "
      "job)\n";
  EXPECT_EQ(result.reason(), "rank 1 ended with exit code 1: first");
  result.standard_error = "";
  result.rank = -1;
  result.mpirun_output =
      "-----\nThe parameter was set to\na path that could not be found:\n\n  plm_rsh_agent: ssh : "
      "rsh\n\nmore\n";
  EXPECT_EQ(result.reason(),
            "mpirun ended with exit code 1: The parameter was set to a path that could not be found: "
            "plm_rsh_agent: ssh : rsh");
}

TEST(LaunchWords, ARankIsNamedWithItsSignalHoweverMpirunSaysIt) {
  struct Words {
    const char* mpirun;
    int exit_code;
    int rank;
    int signal;
  };
  constexpr Words kWords[] = {
      {"mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed).", 137, 1, 9},
      {"The first process to do so was:\n\n  Process name: [[3,1],2]\n  Exit code:    137", 137, 2, 9},
      {"", 139, -1, 11},
      {"Primary job  terminated normally, but 1 process returned\na non-zero exit code.", 135, -1, 7},
      {"The first process to do so was:\n\n  Process name: [[3,1],2]\n  Exit code:    5", 5, 2, 0},
  };
  for (const Words& words : kWords) {
    LaunchResult result;
    result.mpirun_output = words.mpirun;
    decode_ending(words.exit_code << 8, result);
    EXPECT_EQ(result.rank, words.rank) << words.mpirun;
    EXPECT_EQ(result.signal, words.signal) << words.mpirun;
    EXPECT_EQ(result.ending, words.signal != 0 ? Ending::signalled : Ending::exited);
    EXPECT_THAT(result.reason(), HasSubstr(words.signal != 0 ? "was killed by signal" : "exit code 5"));
  }
}

TEST(LineSplitter, TakesTagsAndLinesApart) {
  struct Line {
    const char* name;
    const char* text;
    int rank;
    const char* expected;
  };
  constexpr Line kLines[] = {
      {"tagged", "[1,3]<stderr>:hello", 3, "hello"},
      {"empty", "[1,0]<stdout>:", 0, ""},
      {"mpirun's own", "mpirun noticed that", -1, "mpirun noticed that"},
      {"almost a tag", "[1,x]<stdout>:a", -1, "[1,x]<stdout>:a"},
      {"rank out of range", "[1,99999999999]<stdout>:a", -1, "[1,99999999999]<stdout>:a"},
      {"bracket only", "[", -1, "["},
  };
  for (const Line& line : kLines) {
    std::vector<OutputLine> seen;
    LineSplitter splitter(false, [&](const OutputLine& out) { seen.push_back(out); });
    for (const char* c = line.text; *c != 0; ++c) splitter.feed(std::string_view(c, 1));
    splitter.finish();
    if (seen.empty()) seen.emplace_back();
    EXPECT_EQ(seen.size(), 1U) << line.name;
    EXPECT_EQ(seen.front().rank, line.rank) << line.name;
    EXPECT_EQ(seen.front().text, line.expected) << line.name;
  }
}

}  // namespace
}  // namespace plumbline::launch_words_test
