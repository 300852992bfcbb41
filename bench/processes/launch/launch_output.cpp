// Lines, bounds and the meaning of mpirun's words.
#include "bench/processes/launch/launch_output.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <optional>

namespace plumbline {
namespace {

constexpr std::size_t kLongestLine = 16384;

/// Reads a number at the start of `text` and takes it away.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// The number that follows the first `words` in `text`, spaces skipped.
std::optional<int> number_after(std::string_view text, std::string_view words) {
  const auto at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + words.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return take_number(text);
}

/// Last words of `rank` on stderr (of any rank when -1), without the rank. Lines in brackets are skipped:
/// they are Open MPI's stack trace ("[host:pid] ...").
std::string last_words(const std::string& standard_error, int rank) {
  const std::string wanted = rank >= 0 ? fmt::format("[rank {}] ", rank) : "[rank ";
  std::string found;
  for (std::size_t begin = 0; begin < standard_error.size();) {
    const std::size_t end = std::min(standard_error.find('\n', begin), standard_error.size());
    std::string_view line(standard_error.data() + begin, end - begin);
    begin = end + 1;
    if (!line.starts_with(wanted)) continue;
    line.remove_prefix(std::min(line.find(']') + 2, line.size()));
    // "*** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort," and the like.
    const bool of_open_mpi = line.starts_with("[") || line.starts_with("***");
    if (!of_open_mpi && line.find_first_not_of(" \t\r") != std::string_view::npos)
      found = line.substr(0, 400);
  }
  return found;
}

/// The first paragraph of mpirun's own words, without its rules and "[host:pid]" lines, as one line.
std::string mpirun_words(const std::string& output) {
  std::string found;
  for (std::size_t begin = 0; begin < output.size() && found.size() < 300;) {
    const std::size_t end = std::min(output.find('\n', begin), output.size());
    const std::string_view line(output.data() + begin, end - begin);
    begin = end + 1;
    if (line.starts_with("mpirun: abort is already in progress")) continue;  // asked to end twice
    const bool words = !line.empty() && line.front() != '-' && line.front() != '[';
    // A paragraph that ends with a colon: its sentence goes on in the next.
    if (!words && !found.empty() && found.back() != ':') break;
    const auto begin_of_words = std::min(line.find_first_not_of(" \t"), line.size());
    if (words) found.append(found.empty() ? "" : " ").append(line.substr(begin_of_words));
  }
  return found;
}

/// Finds the failed rank and its signal in mpirun's output.
void find_rank(LaunchResult& result) {
  const std::string_view words = result.mpirun_output;
  if (const auto rank = number_after(words, "MPI_ABORT was invoked on rank")) {
    result.rank = *rank;
  } else if (const auto at = words.find("noticed that process rank"); at != std::string_view::npos) {
    const std::string_view notice = words.substr(at);
    if (const auto signal = number_after(notice, "exited on signal")) {
      result.ending = Ending::signalled;
      result.signal = *signal;
    }
    result.rank = number_after(notice, "process rank").value_or(-1);
  } else if (const auto detected = words.find("Process name: [["); detected != std::string_view::npos) {
    const std::string_view process = words.substr(detected);
    const auto close = process.find("],");
    if (close != std::string_view::npos) result.rank = number_after(process.substr(close), "],").value_or(-1);
  } else if (const auto improper = number_after(words, "due to process rank")) {
    result.rank = *improper;
  }
  // A rank that is killed while it starts has no number for mpirun.
  const bool some_rank = words.find("Primary job  terminated") != std::string_view::npos;
  if (result.rank >= 0 || some_rank) result.culprit = Culprit::rank;
}

/// Who ended badly, for people.
std::string name_of_culprit(const LaunchResult& result) {
  if (result.culprit == Culprit::supervisor) return "the supervisor of mpirun";
  if (result.rank >= 0) return fmt::format("rank {}", result.rank);
  return result.culprit == Culprit::rank ? "a rank" : "mpirun";
}

}  // namespace

void BoundedText::append(std::string_view text) {
  const std::size_t room = limit_ - std::min(limit_, head_.size());
  head_ += text.substr(0, room);
  text.remove_prefix(std::min(room, text.size()));
  tail_ += text;
  if (tail_.size() > 2 * limit_) {
    const std::size_t excess = tail_.size() - limit_;
    dropped_ += excess;
    tail_.erase(0, excess);
  }
}

std::string BoundedText::text() const {
  if (dropped_ == 0) return head_ + tail_;
  return head_ + fmt::format("\n... {} bytes dropped ...\n", dropped_) + tail_;
}

void LineSplitter::feed(std::string_view bytes) {
  partial_ += bytes;
  std::size_t begin = 0;
  for (;;) {
    std::size_t end = partial_.find('\n', begin);
    if (end == std::string::npos && partial_.size() - begin < kLongestLine) break;
    const bool whole = end != std::string::npos;
    end = whole ? end : begin + kLongestLine;
    emit(std::string_view(partial_).substr(begin, end - begin));
    begin = whole ? end + 1 : end;
  }
  partial_.erase(0, begin);
}

void LineSplitter::finish() {
  if (!partial_.empty()) emit(partial_);
  partial_.clear();
}

void LineSplitter::emit(std::string_view line) const {
  OutputLine out{-1, error_stream_, std::string(line)};
  std::string_view rest = line;
  if (take(rest, "[") && take_number(rest) && take(rest, ",")) {
    const auto rank = take_number(rest);
    if (rank && take(rest, "]<") && (take(rest, "stdout>:") || take(rest, "stderr>:"))) {
      out.rank = *rank;
      out.text = rest;
    }
  }
  sink_(out);
}

bool says_that_a_rank_failed(std::string_view line) {
  constexpr std::string_view kBeginnings[] = {"Primary job  terminated", "mpirun noticed that process rank",
                                              "mpirun has exited due to process rank",
                                              "MPI_ABORT was invoked on rank"};
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](std::string_view beginning) { return line.starts_with(beginning); });
}

void decode_ending(int wait_status, LaunchResult& result) {
  if (WIFSIGNALED(wait_status)) {
    result.ending = Ending::signalled;
    result.signal = WTERMSIG(wait_status);
    return;
  }
  result.ending = Ending::exited;
  result.exit_code = WEXITSTATUS(wait_status);
  if (result.exit_code != 0) find_rank(result);
  // A shell's code for it, and mpirun's when the notice is missing.
  constexpr int kSignalled = 128;
  if (result.ending == Ending::exited && result.exit_code > kSignalled &&
      result.exit_code < kSignalled + NSIG) {
    result.ending = Ending::signalled;
    result.signal = result.exit_code - kSignalled;
  }
}

void decode_hang(LaunchResult& result) {
  result.ending = Ending::exited;
  result.exit_code = number_after(result.mpirun_output, "with errorcode").value_or(kUnknownExitCode);
  find_rank(result);
}

std::optional<std::pair<int, int>> step_of(const OutputLine& line) {
  std::pair<int, int> step;
  const bool says = line.rank >= 0 && line.error_stream &&
                    std::sscanf(line.text.c_str(), "step %d of %d", &step.first, &step.second) == 2;
  return says ? std::optional(step) : std::nullopt;
}

std::string LaunchResult::reason() const {
  const std::string who = name_of_culprit(*this);
  std::string text;
  switch (ending) {
    case Ending::exited:
      if (exit_code == 0) return "";
      text = exit_code == kUnknownExitCode ? fmt::format("{} failed and mpirun hung, stopped", who)
                                           : fmt::format("{} ended with exit code {}", who, exit_code);
      break;
    case Ending::signalled:
      text = fmt::format("{} was killed by signal {} ({})", who, signal, strsignal(signal));
      break;
    case Ending::timed_out:
      text = fmt::format("still running after {:.0f} s, stopped", duration.value);
      break;
    case Ending::stopped:
      return "stopped from outside";
  }
  // Words of Open MPI would be about what it could not do then.
  if (!limits.empty()) return text + limits;
  std::string words = complaint.empty() ? last_words(standard_error, rank) : complaint;
  if (words.empty() && rank < 0 && culprit != Culprit::rank) words = mpirun_words(mpirun_output);
  return words.empty() ? text : text + ": " + words;
}

}  // namespace plumbline
