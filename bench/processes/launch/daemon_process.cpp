// Starting and letting go.
#include "bench/processes/launch/daemon_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/base/error.hpp"

namespace plumbline {
namespace {

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

DaemonProcess::DaemonProcess(std::vector<std::string> command) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(fmt::format("pipe2: {}", std::strerror(errno)));
  process_ = fork();
  if (process_ == 0) {
    dup2(ends[0], STDIN_FILENO);
    execvp(words[0], words.data());
    _exit(127);
  }
  const int error = errno;
  close(ends[0]);
  input_ = ends[1];
  if (process_ < 0) {
    close(input_);
    throw Error(fmt::format("fork: {}", std::strerror(error)));
  }
}

DaemonProcess::~DaemonProcess() {
  let_go();
  wait();
}

std::optional<int> DaemonProcess::ended() {
  int status = 0;
  if (!code_ && waitpid(process_, &status, WNOHANG) == process_) code_ = code_of(status);
  return code_;
}

int DaemonProcess::wait() {
  int status = 0;
  while (!code_) {
    const pid_t got = waitpid(process_, &status, 0);
    if (got == process_) code_ = code_of(status);
    if (got < 0 && errno != EINTR) code_ = 1;
  }
  return *code_;
}

void DaemonProcess::let_go() {
  if (input_ >= 0) close(input_);
  input_ = -1;
}

}  // namespace plumbline
