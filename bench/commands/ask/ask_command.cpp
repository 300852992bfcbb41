// `plumbline ask`: JSON requests on standard input, a line each; a reply to each on standard output.
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "bench/ask/answer.hpp"
#include "bench/commands/commands.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Collects lines from pieces of input; keeps no more than the longest request of one.
class Lines {
 public:
  /// Calls `line(text)` or `too_long(bytes)` for every line that ends in `piece`.
  template <class Line, class TooLong>
  void read(std::string_view piece, const Line& line, const TooLong& too_long) {
    for (std::size_t end = piece.find('\n'); end != std::string_view::npos; end = piece.find('\n')) {
      add(piece.substr(0, end));
      finish(line, too_long);
      piece.remove_prefix(end + 1);
    }
    add(piece);
  }
  /// The last line, where its end is missing.
  template <class Line, class TooLong>
  void end(const Line& line, const TooLong& too_long) {
    if (bytes_ > 0) finish(line, too_long);
  }

 private:
  void add(std::string_view part) {
    bytes_ += part.size();
    if (bytes_ <= kLongestRequest) text_ += part;
  }
  template <class Line, class TooLong>
  void finish(const Line& line, const TooLong& too_long) {
    if (bytes_ <= kLongestRequest) {
      line(text_);
    } else {
      too_long(bytes_);
    }
    text_.clear();
    bytes_ = 0;
  }

  std::string text_;
  std::size_t bytes_ = 0;  // of the line so far
};

void print_line(const std::string& reply) {
  if (std::fwrite(reply.data(), 1, reply.size(), stdout) != reply.size() || std::fputc('\n', stdout) == EOF)
    throw std::system_error(errno, std::generic_category(), "standard output");
}

int answer_lines() {
  Lines lines;
  const auto line = [](const std::string& text) { print_line(answer(text)); };
  const auto too_long = [](std::size_t bytes) { print_line(refuse_long_request(bytes)); };
  std::array<char, std::size_t{1} << 16> buffer{};
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw InputError("ask: standard input cannot be read; expected a pipe or a file");
    if (count == 0) break;
    lines.read({buffer.data(), static_cast<std::size_t>(count)}, line, too_long);
    // Whoever waits for the reply sends no more.
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
  }
  lines.end(line, too_long);
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
