// The launcher: kinds of endings, and what comes from ranks.
#include "bench/processes/launch/launch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/launch_environment.hpp"
#include "core/base/error.hpp"
#include "core/run/processors.hpp"
#include "tests/bench/processes/launch/launch_support.hpp"
#include "tests/support/temporary_folder.hpp"

namespace plumbline::launch_test {
namespace {

namespace fs = std::filesystem;
using namespace test;
using ::testing::HasSubstr;

struct Case {
  const char* name;
  std::vector<std::string> arguments;
  Ending ending;
  int exit_code;
  int signal;
  int rank;
  const char* reason;
};

class Endings : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    Ways, Endings,
    ::testing::Values(
        Case{"good", {"good"}, Ending::exited, 0, 0, -1, ""},
        Case{"exit_code", {"exit", "7"}, Ending::exited, 7, 0, 1, "rank 1 ended with exit code 7"},
        Case{"leaves_early", {"exit", "0"}, Ending::exited, 1, 0, 1, "rank 1 ended with exit code 1"},
        Case{"throws",
             {"throw"},
             Ending::exited,
             3,
             0,
             1,
             "rank 1 ended with exit code 3: no room for 7 bytes"},
        Case{"aborts",
             {"abort"},
             Ending::signalled,
             134,
             SIGABRT,
             1,
             "rank 1 was killed by signal 6 (Aborted)"},
        Case{"crashes", {"segfault"}, Ending::signalled, 139, SIGSEGV, 1, "rank 1 was killed by signal 11"},
        Case{"is_killed", {"killed"}, Ending::signalled, 137, SIGKILL, 1, "rank 1 was killed by signal 9"}),
    [](const auto& param) { return param.param.name; });

TEST_P(Endings, AreToldApart) {
  const Case& c = GetParam();
  const LaunchResult result = launch(fake(c.arguments));
  EXPECT_EQ(result.ending, c.ending);
  EXPECT_EQ(result.exit_code, c.exit_code);
  EXPECT_EQ(result.signal, c.signal);
  EXPECT_EQ(result.rank, c.rank) << result.mpirun_output << result.standard_error;
  EXPECT_THAT(result.reason(), HasSubstr(c.reason));
}

TEST(Launch, TellsRanksApart) {
  std::vector<OutputLine> lines;
  LaunchSpec spec = fake({"say"});
  spec.on_line = [&](const OutputLine& line) { lines.push_back(line); };
  const LaunchResult result = launch(spec);
  EXPECT_TRUE(result.ok());
  EXPECT_THAT(result.standard_output, HasSubstr("rank 0 of 2\n"));
  EXPECT_THAT(result.standard_output, HasSubstr("rank 1 of 2\n"));
  EXPECT_THAT(result.standard_error, HasSubstr("[rank 1] threads 1\n"));
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const OutputLine& l) { return l.rank == 1 && l.text == "rank 1 of 2"; }),
            1);
}

TEST(Launch, RanksThatBindThemselvesAreNotBoundToACore) {
  for (const bool bound : {true, false}) {
    const std::vector<std::string> words = mpirun_command(1, "program", {"word"}, bound);
    const auto option = std::find(words.begin(), words.end(), "--bind-to");
    ASSERT_NE(option, words.end());
    EXPECT_EQ(option[1], bound ? "core" : "none");
    EXPECT_EQ(words.back(), "word");
  }
}

// Ranks that share processors stay on theirs: a prediction depends on which ranks share one.
TEST(Launch, MoreRanksThanProcessorsAreBoundInTurn) {
  if (processor_quota() > 0) GTEST_SKIP() << "a quota is of any processors";
  const std::vector<std::string> words = mpirun_command(available_processors() + 1, "program", {}, true);
  const auto option = std::find(words.begin(), words.end(), "--bind-to");
  ASSERT_NE(option, words.end());
  EXPECT_EQ(option[1], "hwthread:overload-allowed");
  EXPECT_NE(std::find(words.begin(), words.end(), "--map-by"), words.end());
}

TEST(Launch, KeepsBoundedOutput) {
  LaunchSpec spec = fake({"chatter"});
  spec.kept_output = 10'000;
  const LaunchResult result = launch(spec);
  EXPECT_TRUE(result.ok());
  EXPECT_LT(result.standard_output.size(), 20'000U);
  EXPECT_THAT(result.standard_output, HasSubstr("line 0 of rank"));
  EXPECT_THAT(result.standard_output, HasSubstr("line 19999 of rank"));
  EXPECT_THAT(result.standard_output, HasSubstr("bytes dropped"));
}

TEST(Launch, EndsWhatHangs) {
  // The time in which this machine starts two ranks: one stopped earlier has printed nothing.
  LaunchResult result;
  for (double timeout_s = 1; timeout_s < 200; timeout_s *= 4) {
    result = launch(fake({"hang", "with a daemon"}, timeout_s));
    EXPECT_EQ(result.ending, Ending::timed_out);
    if (!result.standard_error.empty()) break;
  }
  EXPECT_THAT(result.reason(), HasSubstr("stopped: about to hang"));
}

// Slow ranks continue, and ranks that hang after the last step are found.
TEST(Launch, ATimeoutPerStepIsCountedAnewFromEveryStep) {
  LaunchResult result;
  for (double timeout_s = 3; timeout_s < 200; timeout_s *= 3) {  // starting may take longer
    LaunchSpec spec = fake({"steps", std::to_string(timeout_s / 3)}, timeout_s);
    spec.timeout_per_step = true;
    result = launch(spec);
    EXPECT_EQ(result.ending, Ending::timed_out);
    if (result.standard_error.find("step 4 of 4") == std::string::npos) continue;
    EXPECT_GT(result.duration.value, 7.0 / 3 * timeout_s) << "four steps, and then the timeout";
    break;
  }
  EXPECT_THAT(result.reason(), HasSubstr("stopped: about to hang"));
}

TEST(Launch, StopsWhenAsked) {
  LaunchSpec spec = fake({"hang"});
  int ticks = 0;
  spec.on_tick = [&] { return ++ticks < 3; };
  const LaunchResult result = launch(spec);
  EXPECT_EQ(result.ending, Ending::stopped);
  EXPECT_EQ(ticks, 3);
}

TEST(Launch, SaysWhatCannotBeStarted) {
  LaunchSpec spec = fake({"say"});
  spec.program = "/nonexistent/program";
  EXPECT_THROW(launch(spec), Error);
  {
    const Variable path("PATH", "/nonexistent");
    EXPECT_THAT([] { launch(fake({"say"})); },
                ::testing::ThrowsMessage<Error>(HasSubstr("install Open MPI")));
  }
  const Variable rank("OMPI_COMM_WORLD_RANK", "0");
  EXPECT_THAT([] { launch(fake({"say"})); }, ::testing::ThrowsMessage<InputError>(HasSubstr("mpirun")));
}

TEST(Launch, AnMpirunThatHangsAfterARankFailedIsStopped) {
  const TemporaryFolder folder;
  fs::permissions(folder.write("mpirun",
                               "#!/bin/sh\n"
                               "echo 'Primary job  terminated normally, but 1 process returned' >&2\n"
                               "exec sleep 1000\n"),
                  fs::perms::owner_all);
  const Variable path("PATH", folder.folder_.string() + ":" + std::getenv("PATH"));
  LaunchSpec spec = fake({"say"});
  spec.abort_grace = {0.5};
  const LaunchResult result = launch(spec);
  EXPECT_EQ(result.exit_code, kUnknownExitCode);
  EXPECT_EQ(result.reason(), "a rank failed and mpirun hung, stopped");
}

TEST(Interrupts, LeaveAHangupAloneThatIsIgnored) {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &before);
  {
    const Interrupts nohup;
    std::raise(SIGHUP);
    EXPECT_FALSE(Interrupts::requested());
    std::raise(SIGTERM);
    EXPECT_TRUE(Interrupts::requested());
  }
  sigaction(SIGHUP, &before, nullptr);
  const Interrupts usual;
  EXPECT_FALSE(Interrupts::requested());
  if (before.sa_handler != SIG_IGN) {
    std::raise(SIGHUP);
    EXPECT_TRUE(Interrupts::requested());
  }
}

TEST(SingleCopy, CanBeAskedTwice) {
  EXPECT_EQ(single_copy_works(), single_copy_works());
}

}  // namespace
}  // namespace plumbline::launch_test
