// Output on a terminal of 100 columns: tables fold, prose goes on in the next line.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "bench/show/text/text_table.hpp"
#include "bench/show/text/wrap.hpp"

namespace plumbline::terminal_width_test {
namespace {

constexpr unsigned short kTerminal = 100;

/// Standard output of a shell's line on a terminal, without carriage returns.
std::string on_terminal(const std::string& line) {
  winsize size{};
  size.ws_row = 50;
  size.ws_col = kTerminal;
  int controller = -1;
  const pid_t child = forkpty(&controller, nullptr, nullptr, &size);
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got = 0; child > 0 && (got = read(controller, part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(got));
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  close(controller);
  EXPECT_EQ(WEXITSTATUS(status), 0) << line;
  std::erase(text, '\r');
  return text;
}

TEST(TerminalWidth, NoTableIsWider) {
  const std::string program = std::string("NO_COLOR=1 ") + PLUMBLINE_PROGRAM + " --quiet ";
  for (const std::string command :
       {"predict llama-3.1-70b --gpus 64 --hardware h100 --tp 8 --pp 4 --gbs 64 --seq-length 1024",
        "predict llama-3.1-8b --gpus 8 --hardware h100 --tp 8 --gbs 8 --seq-length 1024 --explain",
        "predict llama-3.1-8b --gpus 8 --hardware h100 --gbs 8 --vary tp=1,2,4 --vary zero_stage=0,1,2",
        "search gpt2-124m --gpus 2 --hardware h100 --gbs 8 --seq-length 1024",
        "size gpt2-124m --gpus 8 --hardware h100,a100 --tokens 1B --seq-length 1024", "validate",
        "list models", "list hardware", "list software", "list schedules",
        "schedule 1f1b --pp 4 --microbatches 8 --compare zb-h1,zb-v",
        "bench collective all-reduce --ranks 2 --sizes 8:64:8"}) {
    std::istringstream lines(on_terminal(program + command + " 2>/dev/null"));
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count)
      EXPECT_LE(columns_of(line), kTerminal) << command << ": " << line;
    EXPECT_GT(count, 3) << command;
  }
}

TEST(TerminalWidth, TablesFoldBehindTheirFirstColumn) {
  TextTable table;
  table.column("row", true);
  for (const char* title : {"first", "second", "third"}) table.column(title);
  table.column("note", true, true);
  table.row({"a", "1", "2", "3", "spare"});
  EXPECT_EQ(table.text(), "row  first  second  third  note\na        1       2      3  spare\n");
  EXPECT_EQ(table.text(32), table.text());
  EXPECT_EQ(table.text(31), "row  first  second  third\na        1       2      3\n");
  EXPECT_EQ(table.text(18), "row  first  second\na        1       2\n\nrow  third\na        3\n");
  EXPECT_EQ(table.text(1), "row  first\na        1\n\nrow  second\na         2\n\nrow  third\na        3\n");
}

TEST(TerminalWidth, LongLinesGoOnFurtherIndented) {
  EXPECT_EQ(within("  one two three\nfour\n", 9), "  one two\n      three\nfour\n");
  EXPECT_EQ(within("one two\n\nend", 0), "one two\n\nend");
  EXPECT_EQ(within("one\n\nunbreakable", 5), "one\n\nunbreakable\n");
  EXPECT_EQ(within("one \033[32mtwo\033[0m\n", 7), "one \033[32mtwo\033[0m\n");
}

}  // namespace
}  // namespace plumbline::terminal_width_test
