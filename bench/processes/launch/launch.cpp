// The launching side: starts the supervisor, reads the ranks' output and how they ended.
#include "bench/processes/launch/launch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "bench/processes/hosts/placement.hpp"
#include "bench/processes/launch/launch_environment.hpp"
#include "bench/processes/launch/launch_output.hpp"
#include "bench/processes/launch/launch_wire.hpp"
#include "bench/processes/launch/run_folder.hpp"
#include "bench/processes/launch/supervisor_process.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kDrain{2};  // for output of ranks that outlive a killed supervisor by a moment

std::chrono::duration<double> seconds_of(Seconds seconds) {
  return std::chrono::duration<double>(seconds.value);
}

/// Reads the available bytes; false at the end of the stream.
bool read_some(int fd, std::string& into) {
  std::array<char, 16384> bytes{};
  const ssize_t got = read(fd, bytes.data(), bytes.size());
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  into.append(bytes.data(), static_cast<std::size_t>(got));
  return got > 0;
}

/// Collects lines into the result's texts.
class Collector {
 public:
  explicit Collector(const LaunchSpec& spec)
      : spec_(spec), output_(spec.kept_output), error_(spec.kept_output), mpirun_(spec.kept_output) {}
  void take(const OutputLine& line) {
    if (step_of(line)) last_step_ = Clock::now();
    if (line.rank < 0) {
      if (!gave_up_ && says_that_a_rank_failed(line.text)) gave_up_ = Clock::now();
      mpirun_.append(line.text + "\n");
    } else if (!line.error_stream) {
      output_.append(line.text + "\n");
    } else {
      const std::string introduction = fmt::format("[rank {}] ", line.rank);
      const bool says_who = line.text.starts_with(introduction);
      if (says_who && complaint_.text.empty()) {
        complaint_ = {line.rank, true, line.text.substr(introduction.size())};
      }
      error_.append((says_who ? "" : introduction) + line.text + "\n");
    }
    if (spec_.on_line) spec_.on_line(line);
  }
  /// When mpirun said that it ends the ranks because one has failed.
  std::optional<Clock::time_point> gave_up() const { return gave_up_; }
  /// Time of the last report of a finished step by a rank; initially of the launch.
  Clock::time_point last_step() const { return last_step_; }
  void store(LaunchResult& result) const {
    result.standard_output = output_.text();
    result.standard_error = error_.text();
    result.mpirun_output = mpirun_.text();
    result.complaint = complaint_.text;
    result.rank = complaint_.rank;
  }

 private:
  const LaunchSpec& spec_;
  BoundedText output_;
  BoundedText error_;
  BoundedText mpirun_;
  OutputLine complaint_;
  std::optional<Clock::time_point> gave_up_;
  Clock::time_point last_step_ = Clock::now();
};

}  // namespace

std::string self_path() {
  return std::filesystem::read_symlink("/proc/self/exe");
}

std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (!words.empty()) words.erase(words.begin());
  return words;
}

LaunchResult launch(const LaunchSpec& spec) {
  if (const char* launcher = already_launched_by()) {
    throw InputError(
        fmt::format("launcher: found one of several ranks started by {}, expected a single process, as it "
                    "starts ranks itself; start it once, without {}",
                    launcher, launcher));
  }
  require_first(spec.hosts);
  const auto started = Clock::now();
  Streams streams = make_streams();
  const pid_t supervisor = spawn_supervisor(spec, streams);
  streams.control.read.reset();
  streams.result.write.reset();
  streams.output.write.reset();
  streams.error.write.reset();

  Collector collector(spec);
  const auto sink = [&](const OutputLine& line) { collector.take(line); };
  LineSplitter output(false, sink);
  LineSplitter error(true, sink);
  std::string report_bytes;
  bool stop_asked = false;
  bool hung = false;  // a rank has failed, and mpirun does not end
  bool overdue = false;
  std::optional<Clock::time_point> supervisor_ended;
  while (streams.result.read || streams.output.read || streams.error.read) {
    std::array<pollfd, 3> watched{{{streams.result.read.get(), POLLIN, 0},
                                   {streams.output.read.get(), POLLIN, 0},
                                   {streams.error.read.get(), POLLIN, 0}}};
    poll(watched.data(), watched.size(), static_cast<int>(spec.tick.value * 1e3));
    if (watched[0].revents != 0 && !read_some(streams.result.read.get(), report_bytes)) {
      streams.result.read.reset();
      supervisor_ended = Clock::now();
    }
    std::string bytes;
    if (watched[1].revents != 0 && !read_some(streams.output.read.get(), bytes)) streams.output.read.reset();
    output.feed(bytes);
    bytes.clear();
    if (watched[2].revents != 0 && !read_some(streams.error.read.get(), bytes)) streams.error.read.reset();
    error.feed(bytes);
    const auto gave_up = collector.gave_up();
    hung = hung || (!stop_asked && gave_up && Clock::now() - *gave_up > seconds_of(spec.abort_grace));
    overdue = overdue || (!stop_asked && spec.timeout_per_step &&
                          Clock::now() - collector.last_step() > seconds_of(spec.timeout));
    if (!stop_asked && (hung || overdue || (spec.on_tick && !spec.on_tick()))) {
      stop_asked = true;
      streams.control.write.reset();
    }
    if (supervisor_ended && Clock::now() - *supervisor_ended > kDrain) break;
  }
  output.finish();
  error.finish();
  int supervisor_status = 0;
  while (waitpid(supervisor, &supervisor_status, 0) < 0 && errno == EINTR) {
  }

  LaunchResult result;
  collector.store(result);
  if (result.complaint.empty()) result.limits = tight_limits();
  result.duration = {std::chrono::duration<double>(Clock::now() - started).count()};
  LaunchReport report;
  if (report_bytes.size() != sizeof report) {
    remove_stale_run_folders();
    result.culprit = Culprit::supervisor;
    result.ending = Ending::signalled;
    result.signal = WIFSIGNALED(supervisor_status) ? WTERMSIG(supervisor_status) : SIGKILL;
    return result;
  }
  std::memcpy(&report, report_bytes.data(), sizeof report);
  switch (report.kind) {
    case ReportKind::refused:
      throw Error(result.mpirun_output.empty()
                      ? "cannot start mpirun"
                      : result.mpirun_output.substr(0, result.mpirun_output.find('\n')));
    case ReportKind::not_started:
      throw Error(
          fmt::format("cannot start mpirun: {}{}", std::strerror(report.value),
                      report.value == ENOENT ? "; install Open MPI (Debian: openmpi-bin)" : result.limits));
    case ReportKind::ended:
      decode_ending(report.value, result);
      break;
    case ReportKind::timed_out:
      result.ending = Ending::timed_out;
      break;
    case ReportKind::stopped:
      if (hung) {
        decode_hang(result);
      } else {
        result.ending = overdue ? Ending::timed_out : Ending::stopped;
      }
      break;
  }
  return result;
}

const char* already_launched_by() {
  const Placement placement = find_placement(process_variables());
  return placement.one_of_several() ? name_of(placement.launcher).data() : nullptr;
}

}  // namespace plumbline
