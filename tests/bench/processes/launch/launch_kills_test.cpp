// No process is left over after any kill.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "bench/processes/launch/run_folder.hpp"
#include "tests/bench/processes/launch/launch_support.hpp"

namespace plumbline::launch_kills_test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace test;

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

/// A process that starts while /proc is read may be missed, as may be its parent that ends meanwhile: none
/// may be seen some times in a row.
bool gone_within(const std::string& token, std::chrono::milliseconds limit) {
  constexpr int kLooks = 4;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  for (int empty = 0; empty < kLooks;) {
    empty = processes_with(token).empty() ? empty + 1 : 0;
    if (empty == 0 && std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

enum class Victim { runner, runner_and_supervisor, supervisor, mpirun };

/// Starts a runner whose ranks hang, kills a process after a while, and waits until all are gone.
void kill_after(std::chrono::milliseconds delay, Victim victim, int round) {
  // A runner killed at once has not yet cleared what an earlier round left.
  remove_stale_run_folders();
  const std::string token =
      "PLUMBLINE_TEST_TOKEN=" + std::to_string(getpid()) + "-" + std::to_string(round) + ";";
  const pid_t runner = fork();
  if (runner == 0) {
    putenv(const_cast<char*>(token.c_str()));
    // Only a living supervisor finds processes that cut all ties.
    const bool supervised = victim == Victim::runner || victim == Victim::mpirun;
    _exit(become_runner("hang", supervised ? "with a daemon" : ""));
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

TEST(LaunchKills, AKillAtAnyInstantLeavesNothing) {
  std::mt19937 random(7);
  const char* asked = std::getenv("PLUMBLINE_KILL_ROUNDS");
  const int rounds = asked != nullptr ? std::atoi(asked) : 12;
  for (int round = 0; round < rounds && !::testing::Test::HasFailure(); ++round)
    kill_after(std::chrono::milliseconds(random() % 300), Victim::runner, round);
}

TEST(LaunchKills, AKillOfAnyLinkOfTheChainLeavesNoProcess) {
  int round = 1000;
  for (Victim victim : {Victim::supervisor, Victim::runner_and_supervisor, Victim::mpirun}) {
    for (auto delay : {60ms, 120ms, 400ms}) kill_after(delay, victim, round++);
  }
  remove_stale_run_folders();
}

TEST(LaunchKills, SaysThatTheSupervisorDied) {
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
  EXPECT_THAT(result.reason(),
              testing::HasSubstr("the supervisor of mpirun was killed by signal 9 (Killed)"));
  remove_stale_run_folders();
}

TEST(LaunchKills, AVariableOfTheUsersShellMeansNothing) {
  // A process that lives and is nobody's parent here; none; no process; a launch that is over.
  for (const char* value : {"1", "999999999", "x", "999999999@/dev/shm/plumbline-run-0-gone"}) {
    const Variable launcher("PLUMBLINE_LAUNCHER_PID", value);
    EXPECT_EQ(in_child([] { return become_runner("say"); }), 0) << value;
  }
}

}  // namespace
}  // namespace plumbline::launch_kills_test
