// Foreign text, on one line of a terminal.
#include "core/base/one_line.hpp"

#include <gtest/gtest.h>

#include "core/base/error.hpp"
#include "core/base/output_json.hpp"

namespace plumbline::one_line_test {
namespace {

TEST(OneLine, ATerminalObeysNothingOfIt) {
  EXPECT_EQ(printable("plain, é and 漢字"), "plain, é and 漢字");
  EXPECT_EQ(printable("\x1b[31mred\x07\x7f"), "?[31mred??");
  EXPECT_EQ(printable("a\nb\tc"), "a?b?c");
  EXPECT_EQ(printable("\xc2\x9b[2J"), "?[2J");            // the C1 form of ESC [
  EXPECT_EQ(printable("exe\xe2\x80\xaetxt"), "exe?txt");  // right to left from here on
  EXPECT_EQ(printable("\xe2\x80\xa8"), "?");              // a line separator
  for (const char* broken : {"\xff", "\xc3", "\x9b", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80"}) {
    EXPECT_EQ(printable(broken).find_first_not_of('?'), std::string::npos) << broken;
  }
}

TEST(OneLine, WhatProgramsReadIsEscaped) {
  const struct {
    const char* text;
    const char* escaped;
  } texts[] = {{"plain, é and 漢字\n\ta\r\n", "plain, é and 漢字\n\ta\r\n"},
               {"\x1b]0;x\x07", "\\u001b]0;x\\u0007"},
               {"\x7f\x01", "\\u007f\\u0001"},
               {"\xc2\x9b[2J", "\\u009b[2J"},
               {"a\xe2\x80\xae"
                "b\xe2\x81\xa6\xd8\x9c",
                "a\\u202eb\\u2066\\u061c"},
               {"\x9b\xff", "\\x9b\\xff"},
               {"", ""}};
  for (const auto& each : texts) EXPECT_EQ(escaped_controls(each.text), each.escaped);
}

TEST(OneLine, JsonOfCommandsHasNothingThatATerminalObeys) {
  const std::string hostile = "\x1b]0;x\x07\x7f\xc2\x9b\xe2\x80\xae\"\\";
  const nlohmann::ordered_json json = {{hostile, {hostile, "\xff", 1}}};
  for (const int indent : {-1, 2}) {
    const std::string text = output_json(json, indent);
    EXPECT_EQ(escaped_controls(text), text);
    EXPECT_EQ(nlohmann::json::parse(text)[hostile][0], hostile);
    EXPECT_EQ(nlohmann::json::parse(text)[hostile][1], "\xef\xbf\xbd");
  }
}

TEST(OneLine, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(printable("ééé", 3), "é...");
  EXPECT_LT(printable(std::string(100'000, 'x')).size(), 70U);
  const std::string message = one_line("file " + std::string(100'000, 'x') + ": found nothing, expected é");
  EXPECT_LT(message.size(), 2010U);
  EXPECT_TRUE(message.starts_with("file xxx"));
  EXPECT_TRUE(message.ends_with("xxx: found nothing, expected é"));
  EXPECT_EQ(one_line(std::string(3000, 'x') + "ééé", 8), "xxxxxx...é");
  EXPECT_LT(one_line(std::string(100'000, '\n') + "end").size(), 10U);
}

TEST(OneLine, LinesBecomeOne) {
  EXPECT_EQ(one_line("first\n  second\r\n\n\tthird \n"), "first second third");
  EXPECT_EQ(one_line(""), "");
  EXPECT_EQ(one_line("\n\n"), "");
  EXPECT_EQ(one_line("  a  b"), "  a  b");
}

TEST(OneLine, AnErrorIsOneLineWhateverItIsMadeOf) {
  EXPECT_STREQ(InputError("bad file: line 1\n  while parsing \x1b[2J").what(),
               "bad file: line 1 while parsing ?[2J");
  EXPECT_STREQ(Error("a\nb").what(), "a b");
  const InputError drawn("row 1: wrong", "rank 0 | >x<\nrank 1 |\n");
  EXPECT_STREQ(drawn.what(), "row 1: wrong");
  EXPECT_EQ(drawn.drawing(), "rank 0 | >x<\nrank 1 |\n");
}

}  // namespace
}  // namespace plumbline::one_line_test
