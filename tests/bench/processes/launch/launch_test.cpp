// The launcher: kinds of endings, and no leftovers after any kill.
#include "bench/processes/launch/launch.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <sstream>
#include <thread>

#include "bench/processes/launch/interrupts.hpp"
#include "bench/processes/launch/launch_environment.hpp"
#include "bench/processes/launch/launch_output.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "core/base/error.hpp"
#include "core/run/processors.hpp"

namespace plumbline {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

LaunchSpec fake(std::vector<std::string> arguments, double timeout_s = 300) {
  LaunchSpec spec;
  spec.program = FAKE_RANKS;
  spec.arguments = std::move(arguments);
  spec.ranks = 2;
  spec.timeout = {timeout_s};
  return spec;
}

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
  const char* path = std::getenv("PATH");
  const std::string saved = path != nullptr ? path : "";
  setenv("PATH", "/nonexistent", 1);
  EXPECT_THAT([] { launch(fake({"say"})); }, ::testing::ThrowsMessage<Error>(HasSubstr("install Open MPI")));
  setenv("PATH", saved.c_str(), 1);
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_THAT([] { launch(fake({"say"})); }, ::testing::ThrowsMessage<InputError>(HasSubstr("mpirun")));
  unsetenv("OMPI_COMM_WORLD_RANK");
}

TEST(Launch, PassesOnWhatMpirunSays) {
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

/// Processes that inherited `token` through their environment, with the words of their command lines.
std::vector<std::pair<pid_t, std::string>> processes_with(const std::string& token) {
  std::vector<std::pair<pid_t, std::string>> found;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // Into a stream, which takes it for the end when the process goes meanwhile; an iterator throws.
    std::ostringstream text;
    text << std::ifstream(entry->path() / "environ").rdbuf();
    if (text.str().find(token) == std::string::npos) continue;
    std::ostringstream command;
    command << std::ifstream(entry->path() / "cmdline").rdbuf();
    found.emplace_back(std::stoi(name), command.str());
  }
  return found;
}

pid_t parent_of(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    if (word == "PPid:" && status >> word) return std::stoi(word);
  }
  return -1;
}

bool gone_within(const std::string& token, std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!processes_with(token).empty()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

enum class Victim { runner, runner_and_supervisor, supervisor, mpirun };

/// Starts a runner whose ranks hang, kills a process after a while, and waits until all are gone.
void kill_after(std::chrono::milliseconds delay, Victim victim, int round) {
  const std::string token =
      "PLUMBLINE_TEST_TOKEN=" + std::to_string(getpid()) + "-" + std::to_string(round) + ";";
  const pid_t runner = fork();
  if (runner == 0) {
    const int null = open("/dev/null", O_RDWR);
    dup2(null, 1);
    dup2(null, 2);
    putenv(const_cast<char*>(token.c_str()));
    // Only a living supervisor finds processes that cut all ties.
    const bool supervised = victim == Victim::runner || victim == Victim::mpirun;
    execl(FAKE_RANKS, FAKE_RANKS, "runner", "hang", supervised ? "with a daemon" : "", nullptr);
    _exit(127);
  }
  std::this_thread::sleep_for(delay);
  if (victim == Victim::runner || victim == Victim::runner_and_supervisor) kill(runner, SIGKILL);
  bool found = victim == Victim::runner;
  if (victim != Victim::runner) {
    for (const auto& [pid, command] : processes_with(token)) {
      const bool supervisor = command.find("--plumbline-supervise") != std::string::npos;
      const bool mpirun = command.rfind("mpirun", 0) == 0;
      if (victim == Victim::mpirun ? mpirun : supervisor) {
        kill(pid, SIGKILL);
        found = true;
      }
    }
    // Too early to find anybody: the runner goes, and the rest follows.
    if (!found) kill(runner, SIGKILL);
  }
  waitpid(runner, nullptr, 0);
  EXPECT_TRUE(gone_within(token, 60s))
      << "after " << delay.count() << " ms, victim " << static_cast<int>(victim);
  for (const auto& [pid, command] : processes_with(token)) {
    ADD_FAILURE() << pid << " " << command;
    kill(pid, SIGKILL);
  }
  // Who kills the supervisor leaves its folder to the next start.
  if (victim == Victim::runner || victim == Victim::mpirun) {
    EXPECT_EQ(remove_stale_run_folders(), 0);
  }
}

TEST(Launch, AKillAtAnyInstantLeavesNothing) {
  std::mt19937 random(7);
  const char* asked = std::getenv("PLUMBLINE_KILL_ROUNDS");
  const int rounds = asked != nullptr ? std::atoi(asked) : 12;
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round)
    kill_after(std::chrono::milliseconds(random() % 300), Victim::runner, round);
}

TEST(Launch, AKillOfAnyLinkOfTheChainLeavesNoProcess) {
  int round = 1000;
  for (Victim victim : {Victim::supervisor, Victim::runner_and_supervisor, Victim::mpirun}) {
    for (auto delay : {60ms, 120ms, 400ms}) kill_after(delay, victim, round++);
  }
  remove_stale_run_folders();
}

TEST(Launch, SaysThatTheSupervisorDied) {
  LaunchSpec spec = fake({"hang"});
  int ticks = 0;
  spec.on_tick = [&] {
    if (++ticks != 5) return true;
    for (const auto& [pid, command] : processes_with("PATH=")) {
      if (command.find("--plumbline-supervise") != std::string::npos && parent_of(pid) == getpid())
        kill(pid, SIGKILL);
    }
    return true;
  };
  const LaunchResult result = launch(spec);
  EXPECT_EQ(result.ending, Ending::signalled);
  EXPECT_EQ(result.culprit, Culprit::supervisor);
  EXPECT_THAT(result.reason(), HasSubstr("the supervisor of mpirun was killed by signal 9 (Killed)"));
  remove_stale_run_folders();
}

TEST(Launch, ARankIsNamedWithItsSignalHoweverMpirunSaysIt) {
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

TEST(Launch, AnMpirunThatHangsAfterARankFailedIsStopped) {
  std::string folder = (fs::temp_directory_path() / "launch_test_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  std::ofstream(folder + "/mpirun") << "#!/bin/sh\n"
                                       "echo 'Primary job  terminated normally, but 1 process returned' >&2\n"
                                       "exec sleep 1000\n";
  fs::permissions(folder + "/mpirun", fs::perms::owner_all);
  const std::string path = std::getenv("PATH");
  setenv("PATH", (folder + ":" + path).c_str(), 1);
  LaunchSpec spec = fake({"say"});
  spec.abort_grace = {0.5};
  const LaunchResult result = launch(spec);
  setenv("PATH", path.c_str(), 1);
  fs::remove_all(folder);
  EXPECT_EQ(result.exit_code, kUnknownExitCode);
  EXPECT_EQ(result.reason(), "a rank failed and mpirun hung, stopped");
}

TEST(Launch, AVariableOfTheUsersShellMeansNothing) {
  // A process that lives and is nobody's parent here; none; no process; a launch that is over.
  for (const char* value : {"1", "999999999", "x", "999999999@/dev/shm/plumbline-run-0-gone"}) {
    setenv("PLUMBLINE_LAUNCHER_PID", value, 1);
    const pid_t runner = fork();
    if (runner == 0) {
      const int null = open("/dev/null", O_RDWR);
      dup2(null, 1);
      execl(FAKE_RANKS, FAKE_RANKS, "runner", "say", nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(runner, &status, 0);
    EXPECT_EQ(status, 0) << value;
  }
  unsetenv("PLUMBLINE_LAUNCHER_PID");
}

TEST(RunFolder, IsMadeWhereThereIsRoom) {
  const RunFolder memory(RunFolderUse::shared_memory, {1 << 20});
  EXPECT_THAT(memory.path(), testing::StartsWith("/dev/shm/plumbline-run-"));
  const std::string place = (fs::temp_directory_path() / "run_folder_test_XXXXXX").string();
  std::string folder = place;
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const char* before = std::getenv("TMPDIR");
  const std::string saved = before != nullptr ? before : "";
  setenv("TMPDIR", folder.c_str(), 1);
  {
    const RunFolder files(RunFolderUse::files, {1 << 20});
    EXPECT_THAT(files.path(), testing::StartsWith(folder + "/plumbline-run-"));
  }
  EXPECT_THAT([] { const RunFolder none(RunFolderUse::shared_memory, {std::int64_t{1} << 59}); },
              ::testing::ThrowsMessage<InputError>(
                  testing::AllOf(HasSubstr("expected a folder for the ranks' shared memory"),
                                 HasSubstr("/dev/shm ("), HasSubstr("MiB free"), HasSubstr("set TMPDIR"))));
  EXPECT_TRUE(fs::is_empty(folder));
  if (before != nullptr) {
    setenv("TMPDIR", saved.c_str(), 1);
  } else {
    unsetenv("TMPDIR");
  }
  fs::remove(folder);
}

TEST(RunFolder, IsElsewhereWhenSharedMemoryIsShort) {
  constexpr int kNotAllowed = 77;
  const pid_t child = fork();
  if (child == 0) {
    // A /dev/shm of 1 MiB for this process alone, as containers have small ones.
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", "/dev/shm", "tmpfs", 0, "size=1m") != 0) {
      _exit(kNotAllowed);
    }
    const RunFolder small(RunFolderUse::shared_memory, {1 << 18});
    const RunFolder large(RunFolderUse::shared_memory, {1 << 24});
    const bool moved = small.path().starts_with("/dev/shm/") && !large.path().starts_with("/dev/shm/");
    fs::remove_all(small.path());
    fs::remove_all(large.path());
    _exit(moved ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "no namespaces here";
  EXPECT_EQ(status, 0);
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

TEST(RunFolder, IsRemovedByItsOwnerOrAfterItsOwnersDeath) {
  std::string path;
  {
    const RunFolder folder(RunFolderUse::shared_memory);
    path = folder.path();
    std::ofstream(path + "/segment") << "x";
    fs::create_directory(path + "/session");
    remove_stale_run_folders();
    EXPECT_TRUE(fs::exists(path + "/segment")) << "a live owner's folder was taken";
  }
  EXPECT_FALSE(fs::exists(path));
  const pid_t owner = fork();
  if (owner == 0) {
    const RunFolder folder(RunFolderUse::shared_memory);
    std::ofstream(folder.path() + "/segment") << "x";
    _exit(0);  // no destructor
  }
  waitpid(owner, nullptr, 0);
  EXPECT_GE(remove_stale_run_folders(), 1);
  EXPECT_EQ(remove_stale_run_folders(), 0);
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

TEST(OpenFiles, TooFewAreSaidBeforeAnythingStarts) {
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const pid_t child = fork();
  if (child == 0) {
    // It is raised as far as allowed.
    struct rlimit limit {
      20, 64
    };
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(1);
    require_open_files(2);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 36) _exit(2);
    limit = {30, 30};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(3);
    try {
      launch(fake({"say"}));
    } catch (const Error& error) {
      _exit(error.what() ==
                    std::string(
                        "open files limit (ulimit -n): found 30, expected at least 36 for 2 ranks; raise it")
                ? 0
                : 4);
    }
    _exit(5);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// In a child, which `prepare` may change: the error of a launch, "" without one.
std::string error_of_launch(const std::function<void()>& prepare) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    std::string said;
    try {
      require_place_of_ranks();
    } catch (const Error& error) {
      said = error.what();
    }
    _exit(write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text(4096, ' ');
  const ssize_t got = read(ends[0], text.data(), text.size());
  close(ends[0]);
  waitpid(child, nullptr, 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  return text;
}

TEST(PlaceOfRanks, LimitsAreNamedBeforeAnythingStarts) {
  const auto limit_files = [](rlim_t soft, rlim_t hard) {
    struct rlimit limit {
      soft, hard
    };
    setrlimit(RLIMIT_FSIZE, &limit);
  };
  EXPECT_EQ(error_of_launch([] {}), "");
  EXPECT_EQ(error_of_launch([&] { limit_files(100, RLIM_INFINITY); }), "") << "the soft limit is raised";
  EXPECT_EQ(error_of_launch([&] { limit_files(102400, 102400); }),
            "file size limit (ulimit -f): found 102400 bytes, expected at least 8388608 for shared memory; "
            "raise it");
  EXPECT_THAT(error_of_launch([] {
                std::string folder = "/tmp/plumbline-gone-XXXXXX";
                if (mkdtemp(folder.data()) == nullptr || chdir(folder.c_str()) != 0) _exit(9);
                rmdir(folder.c_str());
              }),
              HasSubstr("current folder: found one that is gone"));
}

TEST(PlaceOfRanks, TightLimitsAreNamedInPlaceOfOpenMpisWords) {
  const auto named_in_child = [] {
    struct rlimit few {};
    few.rlim_cur = few.rlim_max = 40;
    setrlimit(RLIMIT_NOFILE, &few);
    _exit(tight_limits() == "; tight limits: ulimit -n 40; raise them" ? 0 : 1);
  };
  EXPECT_EXIT(named_in_child(), testing::ExitedWithCode(0), "");
  LaunchResult failed;
  failed.exit_code = 1;
  failed.mpirun_output = "It looks like pmix_init failed for some reason (which may only be relevant to an\n";
  EXPECT_THAT(failed.reason(), HasSubstr("pmix_init"));
  failed.limits = "; tight limits: ulimit -u 8; raise them";
  EXPECT_EQ(failed.reason(), "mpirun ended with exit code 1; tight limits: ulimit -u 8; raise them");
}

TEST(PlaceOfRanks, WithoutSshMpirunDoesNotLookForIt) {
  const char* before = std::getenv("PATH");
  const std::string saved = before == nullptr ? "" : before;
  setenv("PATH", "/nowhere", 1);
  const auto local = local_environment();
  setenv("PATH", saved.c_str(), 1);
  ASSERT_EQ(local.size(), 1U);
  EXPECT_EQ(local.front().first + "=" + local.front().second, "OMPI_MCA_plm=isolated");
}

TEST(SingleCopy, CanBeAskedTwice) {
  EXPECT_EQ(single_copy_works(), single_copy_works());
}

}  // namespace
}  // namespace plumbline
