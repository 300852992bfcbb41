#include "core/launch_files/sandbox/sandbox.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/error.hpp"
#include "core/launch_files/sandbox/sandbox_inside.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kKeptComplaints = 4096;  // bytes

class SandboxPipe {
 public:
  SandboxPipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0)
      throw Error(fmt::format("--run-script: found no pipe: {}", std::strerror(errno)));
  }
  ~SandboxPipe() {
    close_end(0);
    close_end(1);
  }
  SandboxPipe(const SandboxPipe&) = delete;
  SandboxPipe& operator=(const SandboxPipe&) = delete;

  int end(int which) const { return ends_[which]; }
  void close_end(int which) {
    if (ends_[which] >= 0) close(std::exchange(ends_[which], -1));
  }

 private:
  int ends_[2] = {-1, -1};
};

/// Appends what is there; false at the end.
bool take(int file, std::string& to) {
  char buffer[65536];
  const ssize_t size = read(file, buffer, sizeof buffer);
  if (size < 0) return errno == EINTR || errno == EAGAIN;
  to.append(buffer, static_cast<std::size_t>(size));
  return size > 0;
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

/// "2\0srun\0a\0b\0" and "1\0A=1\0": counts, the program, words, and variables.
std::vector<SandboxCommand> commands_of(std::string_view record) {
  std::vector<SandboxCommand> all;
  bool whole = true;
  const auto next = [&]() -> std::string {
    const std::size_t end = record.find('\0');
    whole = whole && end != std::string_view::npos;
    std::string text(record.substr(0, end));
    record.remove_prefix(end == std::string_view::npos ? record.size() : end + 1);
    return text;
  };
  const auto count = [&] {
    const std::string text = next();
    long number = -1;
    std::from_chars(text.data(), text.data() + text.size(), number);
    whole = whole && number >= 0;
    return number;
  };
  while (whole && !record.empty()) {
    SandboxCommand command;
    for (long words = count() + 1; whole && words > 0; --words) command.words.push_back(next());
    for (long variables = count(); whole && variables > 0; --variables) {
      const std::string each = next();
      const std::size_t equals = each.find('=');
      if (equals != std::string::npos) command.environment[each.substr(0, equals)] = each.substr(equals + 1);
    }
    if (whole) all.push_back(std::move(command));
  }
  return all;
}

/// Reads the child's report: a line of E and the failure, L and the limit, or D and the status; the record
/// follows D.
void take_report(const std::string& report, SandboxRun& run) {
  const std::size_t end = std::min(report.find('\n'), report.size());
  const std::string_view line = std::string_view(report).substr(0, end);
  const std::string_view told = line.substr(std::min<std::size_t>(1, end));
  if (line.starts_with('D')) {
    std::from_chars(told.data(), told.data() + told.size(), run.status);
    run.commands = commands_of(std::string_view(report).substr(std::min(end + 1, report.size())));
  } else if (line.starts_with('L')) {
    run.limit = told;
  } else if (run.limit.empty()) {
    run.unavailable = line.empty() ? "its first process ended" : told;
  }
}

}  // namespace

SandboxRun run_in_sandbox(const SandboxJob& job) {
  using Clock = std::chrono::steady_clock;
  SandboxPipe report;
  SandboxPipe complaints;
  SandboxPipe life;
  const int parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Error(fmt::format("--run-script: found no process: {}", std::strerror(errno)));
  if (child == 0) {
    life.close_end(1);
    enter_sandbox(job, {report.end(1), complaints.end(1), life.end(0)}, parent);
  }
  report.close_end(1);
  complaints.close_end(1);
  SandboxRun run;
  std::string told;
  const auto deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(job.seconds));
  pollfd files[2] = {{report.end(0), POLLIN, 0}, {complaints.end(0), POLLIN, 0}};
  while (files[0].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      run.limit = fmt::format("{:g} s", job.seconds);
      break;
    }
    poll(files, 2, static_cast<int>(left));
    if ((files[0].revents & (POLLIN | POLLHUP)) != 0 && !take(files[0].fd, told)) files[0].fd = -1;
    if ((files[1].revents & (POLLIN | POLLHUP)) != 0 && !take(files[1].fd, run.complaint)) files[1].fd = -1;
    if (run.complaint.size() > kKeptComplaints)
      run.complaint.erase(0, run.complaint.size() - kKeptComplaints);
  }
  life.close_end(1);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  run.complaint = last_line(std::move(run.complaint));
  take_report(told, run);
  return run;
}

}  // namespace plumbline
