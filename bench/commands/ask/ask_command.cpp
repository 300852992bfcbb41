// `plumbline ask`: JSON requests on standard input, a line each; a reply to each on standard output.
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "bench/ask/answer.hpp"
#include "bench/commands/commands.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// A line of input; no more than the longest request of it is kept.
struct QuestionLine {
  std::string text;
  std::size_t bytes = 0;

  void add(std::string_view part) {
    bytes += part.size();
    if (bytes <= kLongestRequest) text += part;
  }
};

/// At once: whoever waits for the reply sends no more.
void print_line(const std::string& reply) {
  if (std::fwrite(reply.data(), 1, reply.size(), stdout) != reply.size() || std::fputc('\n', stdout) == EOF ||
      std::fflush(stdout) != 0)
    throw std::system_error(errno, std::generic_category(), "standard output");
}

/// Requests of standard input in their order. Those that arrive during a search are looked through for one
/// that cancels it.
class Requests {
 public:
  /// Answers all, until the input ends.
  void answer_all() {
    const AskCancels cancels{[this](std::string_view id) { return wanted(id); },
                             [this](std::string_view id) { return done(id); }};
    while (!waiting_.empty() || read_some()) {
      if (waiting_.empty()) continue;
      const QuestionLine line = std::move(waiting_.front());
      waiting_.pop_front();
      waiting_bytes_ -= sizeof(QuestionLine) + line.text.size();
      print_line(line.bytes > kLongestRequest ? refuse_long_request(line.bytes)
                                              : answer(line.text, {}, cancels));
    }
  }

 private:
  /// Waits for input; false after its end.
  bool read_some() {
    std::array<char, std::size_t{1} << 16> buffer{};
    ssize_t count = 0;
    do count = ended_ ? 0 : ::read(STDIN_FILENO, buffer.data(), buffer.size());
    while (count < 0 && errno == EINTR);
    if (count < 0) throw InputError("ask: standard input cannot be read; expected a pipe or a file");
    std::string_view piece(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
      last_.add(piece.substr(0, end));
      finish_line();
      piece.remove_prefix(end + 1);
    }
    last_.add(piece);
    if (count > 0) return true;
    ended_ = true;
    if (last_.bytes > 0) finish_line();  // without its end
    return !waiting_.empty();
  }

  void finish_line() {
    if (std::string id = cancelled_id(last_.text); !id.empty()) wanted_.insert(std::move(id));
    waiting_bytes_ += sizeof(QuestionLine) + last_.text.size();
    waiting_.push_back(std::exchange(last_, {}));
  }

  /// True once a request that waits cancels the search `id`.
  bool wanted(std::string_view id) {
    const Clock::time_point now = Clock::now();
    pollfd input{STDIN_FILENO, POLLIN, 0};
    while (now >= next_look_ && !ended_ && waiting_bytes_ < kLongestRequest && ::poll(&input, 1, 0) == 1 &&
           read_some())
      continue;
    if (now >= next_look_) next_look_ = now + kLooks;
    if (!wanted_.contains(id)) return false;
    done_.emplace(id);
    return true;
  }

  /// The turn of the request that cancels `id`.
  bool done(std::string_view id) {
    if (const auto found = wanted_.find(id); found != wanted_.end()) wanted_.erase(found);
    const auto found = done_.find(id);
    if (found == done_.end()) return false;
    done_.erase(found);
    return true;
  }

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLooks{10};  // apart

  std::deque<QuestionLine> waiting_;
  std::size_t waiting_bytes_ = 0;
  QuestionLine last_;  // the part of it that has come
  bool ended_ = false;
  std::multiset<std::string, std::less<>> wanted_;  // ids that waiting requests cancel
  std::set<std::string, std::less<>> done_;         // those that have ended a search
  Clock::time_point next_look_{};
};

int answer_lines() {
  Requests().answer_all();
  return static_cast<int>(ExitCode::done);
}

int print_schema() {
  const std::string_view schema = ask_schema();
  std::fwrite(schema.data(), 1, schema.size(), stdout);
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_ask_command(CLI::App& app, CommandAction& action) {
  CLI::App* command = app.add_subcommand("ask", "Answer questions of programs: JSON, one line each");
  const auto schema = std::make_shared<bool>(false);
  command->add_flag("--schema", *schema, "Print the JSON schema of requests and replies");
  command->callback(
      [schema, &action] { action = [schema] { return *schema ? print_schema() : answer_lines(); }; });
}

}  // namespace plumbline
