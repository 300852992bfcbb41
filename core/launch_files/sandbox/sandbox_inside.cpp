#include "core/launch_files/sandbox/sandbox_inside.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

void require_call(long result, const std::string& what) {
  if (result < 0) throw SandboxFailure{fmt::format("{}: {}", what, std::strerror(errno))};
}

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kNamespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
constexpr int kUser = 1000;                            // of the processes inside
constexpr int kLookMilliseconds = 3;                   // between two looks at the processes
constexpr auto kBackground = std::chrono::seconds(1);  // for jobs that the script leaves behind
constexpr int kReapedAtOnce = 100;                     // a fork bomb's children end without end
constexpr int kNice = 10;                              // so that the supervisor is run before a fork bomb
constexpr const char* kShell = "/bin/bash";

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_file(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  require_call(file, path);
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  require_call(written ? 0 : -1, path);
  close(file);
}

/// Signals as a new program expects them.
void reset_signals() {
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

struct Handshake {
  int listener[2] = {-1, -1};  // the number of the script's file that asks for processes
  int ready[2] = {-1, -1};     // at its end once the supervisor has that file
};

/// Replaces this process by bash.
[[noreturn]] void run_shell(const SandboxJob& job, int complaints, const Handshake& handshake) {
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  require_call(nothing, "/dev/null");
  require_call(dup2(nothing, STDIN_FILENO), "standard input");
  require_call(dup2(nothing, STDOUT_FILENO), "standard output");
  require_call(dup2(complaints, STDERR_FILENO), "standard error");
  require_call(syscall(SYS_close_range, 3U, ~0U, 1U << 2), "close_range");  // CLOSE_RANGE_CLOEXEC
  require_call(setsid(), "session");                                        // `kill 0` signals a group
  require_call(setpriority(PRIO_PROCESS, 0, kNice), "setpriority");
  std::vector<std::string> words{kShell, job.script};
  words.insert(words.end(), job.arguments.begin(), job.arguments.end());
  std::vector<std::string> variables{fmt::format("PATH={}", kSandboxPath),
                                     fmt::format("HOME={}", kSandboxHome),
                                     fmt::format("BASH_ENV={}", kSandboxFunctions),
                                     "USER=user",
                                     "LANG=C.UTF-8",
                                     "TMPDIR=/tmp",
                                     "TERM=dumb"};
  for (const auto& [name, value] : job.environment) variables.push_back(fmt::format("{}={}", name, value));
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    all.reserve(texts.size() + 1);
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  };
  const std::vector<char*> arguments = pointers(words);
  const std::vector<char*> environment = pointers(variables);
  close(handshake.ready[1]);
  const int listener = confine_process();
  const bool told = write(handshake.listener[1], &listener, sizeof listener) == sizeof listener;
  char nothing_more = 0;
  if (!told || read(handshake.ready[0], &nothing_more, 1) != 0) _exit(127);
  execve(kShell, arguments.data(), environment.data());
  _exit(127);
}

/// The script's file that asks for processes.
int listener_of(pid_t script, const Handshake& handshake) {
  close(handshake.listener[1]);
  int number = -1;
  const bool told = read(handshake.listener[0], &number, sizeof number) == sizeof number;
  if (!told) return -1;  // it has reported a failure
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, script, 0));
  require_call(handle, "pidfd_open");
  const int listener = static_cast<int>(syscall(SYS_pidfd_getfd, handle, number, 0));
  require_call(listener, "pidfd_getfd");
  close(handle);
  close(handshake.ready[1]);
  return listener;
}

/// Lets the process that asks have its child.
void allow_process(int listener) {
  seccomp_notif request{};
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) != 0) return;  // it has ended since
  seccomp_notif_resp answer{request.id, 0, 0, SECCOMP_USER_NOTIF_FLAG_CONTINUE};
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

struct Usage {
  int processes = 0;
  long bytes = 0;
};

/// Processes of this namespace, without this one, and their memory that is no file's if `memory`.
Usage usage_now(bool memory) {
  Usage usage;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || name == "1") continue;
    ++usage.processes;
    if (!memory) continue;
    std::ifstream status(entry.path() / "status");
    for (std::string word; status >> word;) {
      if (word != "RssAnon:" && word != "RssShmem:") continue;
      long kib = 0;
      status >> kib;
      usage.bytes += kib << 10;
      if (word == "RssShmem:") break;
    }
  }
  return usage;
}

std::string recorded() {
  std::ifstream file(kSandboxRecord, std::ios::binary);
  std::string text(static_cast<std::size_t>(kMostRecorded), '\0');
  file.read(text.data(), kMostRecorded);
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

/// Waits for the script and the jobs that it leaves behind. Returns the report.
std::string supervise(pid_t script, int listener) {
  Clock::time_point looked;
  int status = 0;
  bool ended = false;
  Clock::time_point end;
  for (;;) {
    int each = 0;
    pid_t process = 0;
    for (int reaped = 0; reaped < kReapedAtOnce && (process = waitpid(-1, &each, WNOHANG)) > 0; ++reaped) {
      if (process != script) continue;
      ended = true;
      end = Clock::now();
      status = WIFEXITED(each) ? WEXITSTATUS(each) : 128 + WTERMSIG(each);
    }
    const bool alone = process < 0 && errno == ECHILD;
    if (ended && (alone || Clock::now() - end > kBackground)) {
      const std::string record = recorded();
      if (record.size() == kMostRecorded) return fmt::format("L{} MiB of commands\n", kMostRecorded >> 20);
      return fmt::format("D{}\n{}", status, record);
    }
    pollfd asking{listener, POLLIN, 0};
    poll(&asking, 1, kLookMilliseconds);
    const bool asks = (asking.revents & POLLIN) != 0;
    const bool ended_asking = (asking.revents & POLLHUP) != 0;
    const bool memory = Clock::now() - looked > std::chrono::milliseconds(kLookMilliseconds);
    const Usage usage = usage_now(memory);
    if (usage.processes > kSandboxProcesses) return fmt::format("L{} processes\n", kSandboxProcesses);
    if (usage.bytes > kSandboxBytes) return fmt::format("L{} MiB of memory\n", kSandboxBytes >> 20);
    if (memory) looked = Clock::now();
    if (asks) allow_process(listener);
    if (ended_asking) usleep(1000);
  }
}

/// The first process of the new namespaces: when it ends, the kernel ends all others.
[[noreturn]] void be_first(const SandboxJob& job, const SandboxPipes& pipes) {
  try {
    require_call(prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG");
    require_call(setsid(), "session");
    build_sandbox_root(job);
    require_call(access(kShell, X_OK), kShell);
    Handshake handshake;
    require_call(pipe2(handshake.listener, O_CLOEXEC), "pipe");
    require_call(pipe2(handshake.ready, O_CLOEXEC), "pipe");
    const pid_t script = fork();
    require_call(script, "fork");
    if (script == 0) run_shell(job, pipes.complaints, handshake);
    close(pipes.complaints);
    const int listener = listener_of(script, handshake);
    if (listener >= 0) write_all(pipes.report, supervise(script, listener));
  } catch (const SandboxFailure& failure) {
    write_all(pipes.report, fmt::format("E{}\n", failure.what));
  }
  _exit(0);
}

/// Keeps this user's identity under another number, without the groups.
void map_user(uid_t user, gid_t group) {
  write_file("/proc/self/setgroups", "deny");
  write_file("/proc/self/uid_map", fmt::format("{} {} 1", kUser, user));
  write_file("/proc/self/gid_map", fmt::format("{} {} 1", kUser, group));
}

}  // namespace

void enter_sandbox(const SandboxJob& job, const SandboxPipes& pipes, int parent) {
  try {
    reset_signals();
    setsid();
    const uid_t user = geteuid();
    const gid_t group = getegid();
    require_call(unshare(kNamespaces), "namespaces of Linux");
    require_call(prctl(PR_SET_PDEATHSIG, SIGKILL), "PR_SET_PDEATHSIG");
    if (getppid() != parent) _exit(1);
    map_user(user, group);
    const pid_t first = fork();
    require_call(first, "fork");
    if (first == 0) be_first(job, pipes);
    close(pipes.report);
    close(pipes.complaints);
    const int handle = static_cast<int>(syscall(SYS_pidfd_open, first, 0));
    pollfd files[2] = {{handle, POLLIN, 0}, {pipes.life, POLLIN, 0}};
    while (poll(files, 2, handle < 0 ? 100 : -1) < 0 && errno == EINTR) {
    }
    kill(first, SIGKILL);
    while (waitpid(first, nullptr, 0) < 0 && errno == EINTR) {
    }
  } catch (const SandboxFailure& failure) {
    write_all(pipes.report, fmt::format("E{}\n", failure.what));
  }
  _exit(0);
}

}  // namespace plumbline
