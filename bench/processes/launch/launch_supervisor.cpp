// The supervisor between a launching process and mpirun, and the first steps of a launched rank.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/processes/hosts/placement.hpp"
#include "bench/processes/launch/launch.hpp"
#include "bench/processes/launch/launch_agent.hpp"
#include "bench/processes/launch/launch_environment.hpp"
#include "bench/processes/launch/launch_wire.hpp"
#include "bench/processes/launch/remote_daemon.hpp"
#include "bench/processes/launch/run_folder.hpp"

namespace plumbline {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kGrace{3000};  // between TERM and KILL of a run that timed out
constexpr std::chrono::milliseconds kPause{20};    // at most between checks for ended processes
constexpr std::chrono::seconds kLastEnd{15};  // a process that has not ended so long after KILL never will

/// Parent of a process from /proc, or -1.
pid_t parent_of(const std::string& process) {
  FILE* file = std::fopen(("/proc/" + process + "/stat").c_str(), "re");
  if (file == nullptr) return -1;
  std::array<char, 512> text{};
  const std::size_t length = std::fread(text.data(), 1, text.size() - 1, file);
  std::fclose(file);
  // "pid (name) state ppid": the name may hold anything, so look behind its last parenthesis.
  const std::string_view line(text.data(), length);
  const auto close_at = line.rfind(')');
  if (close_at == std::string_view::npos || close_at + 4 >= line.size()) return -1;
  return static_cast<pid_t>(std::strtol(text.data() + close_at + 4, nullptr, 10));
}

/// Sends SIGKILL to every child of this process, the adopted ones included.
void kill_children() {
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (parent_of(name) == getpid())
      kill(static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10)), SIGKILL);
  }
}

class Supervisor {
 public:
  /// `control` is readable, at its end, when this one is to stop.
  Supervisor(int ranks, int threads_per_rank, int control)
      : folder_(RunFolderUse::shared_memory, shared_memory_of(ranks)), control_(control) {
    require_open_files(ranks);
    require_place_of_ranks();
    for (const auto& [name, value] : mpirun_environment(folder_.path(), ranks, threads_per_rank))
      setenv(name.c_str(), value.c_str(), 1);
  }

  LaunchReport run(char** command, std::chrono::milliseconds timeout) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const sigset_t watched = supervisor_signals();
    sigprocmask(SIG_BLOCK, &watched, nullptr);  // as they are since the start
    signals_ = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) return {ReportKind::not_started, errno};
    if (const int error = start(command); error != 0) return {ReportKind::not_started, error};
    const LaunchReport report = watch(Clock::now() + timeout);
    const Clock::time_point given_up = Clock::now() + kLastEnd;
    for (std::chrono::milliseconds pause{1}; reap() && Clock::now() < given_up;
         pause = std::min(2 * pause, kPause)) {
      kill_children();
      std::this_thread::sleep_for(pause);
    }
    return {report.kind, status_};
  }

 private:
  /// Starts mpirun; returns errno of exec, 0 when it runs.
  int start(char** command) {
    std::array<int, 2> failure{};
    if (pipe2(failure.data(), O_CLOEXEC) != 0) return errno;
    const pid_t parent = getpid();
    mpirun_ = fork();
    if (mpirun_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      setpgid(0, 0);
      sigset_t none;
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, nullptr);
      setenv(kLauncherVariable, (std::to_string(getpid()) + "@" + folder_.path()).c_str(), 1);
      execvp(command[0], command);
      const int error = errno;
      if (write(failure[1], &error, sizeof error) < 0) _exit(126);
      _exit(127);
    }
    close(failure[1]);
    int error = mpirun_ < 0 ? errno : 0;
    if (mpirun_ > 0 && read(failure[0], &error, sizeof error) != static_cast<ssize_t>(sizeof error))
      error = 0;
    close(failure[0]);
    return error;
  }

  /// Waits for mpirun's end, the caller's end or the timeout.
  LaunchReport watch(Clock::time_point deadline) {
    LaunchReport report{ReportKind::ended, 0};
    bool asked_to_end = false;
    while (reap() && !ended_) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) {
        if (asked_to_end) return report;
        asked_to_end = true;
        report.kind = ReportKind::timed_out;
        kill(mpirun_, SIGTERM);
        deadline = Clock::now() + kGrace;
        continue;
      }
      std::array<pollfd, 2> watched{{{control_, POLLIN, 0}, {signals_, POLLIN, 0}}};
      poll(watched.data(), watched.size(), static_cast<int>(std::min<long long>(left, 60'000)));
      const bool caller_gone = watched[0].revents != 0;
      if (caller_gone || told_to_stop()) return {ReportKind::stopped, 0};
    }
    return report;
  }

  /// Reaps ended children; false when there is no child left.
  bool reap() {
    for (;;) {
      int status = 0;
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended == 0) return true;
      if (ended < 0) return errno != ECHILD;
      if (ended == mpirun_) {
        status_ = status;
        ended_ = true;
      }
    }
  }

  bool told_to_stop() const {
    bool stop = false;
    signalfd_siginfo info{};
    while (read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info))
      stop = stop || info.ssi_signo != SIGCHLD;
    return stop;
  }

  RunFolder folder_;
  int control_;
  int signals_ = -1;
  pid_t mpirun_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

/// argv: program, kSuperviseArgument, ranks, threads per rank, timeout in ms, command …
int supervise(int argc, char** argv) {
  if (argc < 6) return 2;
  signal(SIGPIPE, SIG_IGN);
  fcntl(kControlDescriptor, F_SETFD, FD_CLOEXEC);
  fcntl(kResultDescriptor, F_SETFD, FD_CLOEXEC);
  LaunchReport report;
  try {
    Supervisor supervisor(std::atoi(argv[2]), std::atoi(argv[3]), kControlDescriptor);
    report = supervisor.run(argv + 5, std::chrono::milliseconds(std::atoll(argv[4])));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return write(kResultDescriptor, &report, sizeof report) == static_cast<ssize_t>(sizeof report) ? 0 : 1;
}

/// argv: program, kDaemonArgument, words of an order. Its exit code is the daemon's.
int supervise_daemon(int argc, char** argv) {
  const sigset_t watched = supervisor_signals();
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // Standard input is for this process alone.
  const int control = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (control < 0 || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0) return 1;
  std::vector<std::string> places;  // of the srun that started this: ranks have places of their own
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string_view(*entry).find('='));
    if (tells_a_place(name)) places.push_back(name);
  }
  for (const std::string& name : places) unsetenv(name.c_str());
  try {
    const DaemonOrder order = order_of({argv + 2, argv + argc});
    std::vector<std::string> words = {own_daemon()};
    words.insert(words.end(), order.arguments.begin(), order.arguments.end());
    std::vector<char*> command;
    command.reserve(words.size() + 1);
    for (std::string& word : words) command.push_back(word.data());
    command.push_back(nullptr);
    Supervisor supervisor(order.slots, order.threads, control);
    const LaunchReport report = supervisor.run(command.data(), std::chrono::milliseconds(order.limit_ms));
    return report.kind == ReportKind::ended && WIFEXITED(report.value) ? WEXITSTATUS(report.value) : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

/// mpirun's process id when a supervisor started it and this process is one of its ranks, else 0: the
/// variable alone is no proof.
pid_t supervised_mpirun() {
  const char* text = std::getenv(kLauncherVariable);
  const char* folder = std::getenv("TMPDIR");
  if (text == nullptr || folder == nullptr || std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) return 0;
  char* end = nullptr;
  const long process = std::strtol(text, &end, 10);
  const bool whole = process > 1 && *end == '@' && std::strcmp(end + 1, folder) == 0;
  return whole ? static_cast<pid_t>(process) : 0;
}

/// Ties a rank to mpirun or to the daemon on its host: it dies with them. Its shared memory is in the run's
/// folder on this host. It is the first process that a system short of memory kills.
void tie_to(pid_t launcher) {
  setenv("OMPI_MCA_btl_vader_backing_directory", std::getenv("TMPDIR"), 1);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher && kill(launcher, 0) != 0) _exit(1);  // it died before the line above
  if (FILE* file = std::fopen("/proc/self/oom_score_adj", "we")) {
    std::fputs("500", file);
    std::fclose(file);
  }
}

}  // namespace

std::optional<int> launch_entry(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], kSuperviseArgument) == 0) return supervise(argc, argv);
  if (argc > 1 && std::strcmp(argv[1], kDaemonArgument) == 0) return supervise_daemon(argc, argv);
  if (argc > 1 && std::strcmp(argv[1], kAgentArgument) == 0) return act_as_agent(argc, argv);
  if (const pid_t launcher = supervised_mpirun(); launcher != 0) tie_to(launcher);
  return std::nullopt;
}

}  // namespace plumbline
