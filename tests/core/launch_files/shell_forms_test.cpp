// The constant part of bash: forms of public launch scripts, as bash itself evaluates them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/launch_files/shell/shell_arithmetic.hpp"
#include "core/launch_files/shell/shell_parameter.hpp"
#include "core/launch_files/shell/shell_script.hpp"

namespace plumbline::shell_forms_test {
namespace {

namespace fs = std::filesystem;

struct Form {
  const char* script;  // sets X
  const char* value;
};

constexpr Form kForms[] = {
    {"X=$((8*${N:-1}))", "8"},
    {"X=$(( 8 > 4 ? 4 : 2 ))", "4"},
    {"let X=2*4", "8"},
    {"let \"X = 2*4\"", "8"},
    {"let X=2 X+=2", "4"},
    {"A=\"4 2\"; X=${A%% *}", "4"},
    {"A=4-2; X=${A/-2/}", "4"},
    {"A=4-2; X=${A//-*/}", "4"},
    {"A=4-2-2; X=${A//-2/}", "4"},
    {"A=(2 4 8); X=${A[1]}", "4"},
    {"A=(2 4 8); i=2; X=${A[$i]}", "8"},
    {"A=(2 4 8); i=2; X=${A[i-1]}", "4"},
    {"A=(2 4 8); X=${A[-1]}", "8"},
    {"set -- 4 2; X=$1", "4"},
    {"for i in 1 2 4; do X=$i; done", "4"},
    {"f() { X=4; }; f", "4"},
    {"A=(1 2 3 4); X=${#A[@]}", "4"},
    {"for ((i=0;i<4;i++)); do X=$i; done; X=$((X+1))", "4"},
    {"X=0; for ((i=0;i<4;i++)); do X=$((X+1)); done", "4"},
    {"X=1; X=$((X << 2))", "4"},
    {"S=no\nif [ $S = yes ]; then\n  options=--b\nfi\nX=${options}4", "4"},
    {"X=$((16#4))", "4"},
    {"X=$((2**2))", "4"},
    {"X=$((0x4))", "4"},
    {"X=$((4,4))", "4"},
    {"A=abcd; X=${#A}", "4"},
    {"A=x4y; X=${A:1:1}", "4"},
    {"A=xx4; X=${A:2}", "4"},
    {"A=xx42; X=${A: -2:1}", "4"},
    {"((X=4))", "4"},
    {"X=2; ((X*=2))", "4"},
    {"X=2; (( X == 2 )) && X=4", "4"},
    {"A=8B; X=${A%B}; X=$((X/2))", "4"},
    {"A=UP; X=${A,,}; [ $X = up ] && X=4", "4"},
    {"case 8B in 8[bB]) X=4;; *) X=2;; esac", "4"},
    {"case 9 in [!0-8]) X=4;; *) X=2;; esac", "4"},
    {"Y=${N:-2}; X=$((Y>4?4:8))", "8"},
    {"X=2; X+=2; X=${X/22/4}", "4"},
    {"A=4:2; X=${A#*:}; X=${A%:*}", "4"},
    {"a=Y; Y=4; X=${!a}", "4"},
    {"if (( 8 > 4 )); then X=4; fi", "4"},
    {"for i in {1..4}; do X=$i; done", "4"},
    {"for i in {8,2,4}; do X=$i; done", "4"},
    {"A=(1 2 4 8); X=${A[@]:2:1}", "4"},
    {"A=(1 2 8); A[2]=4; X=${A[2]}", "4"},
    {"A=(1 2); A[2]=4; X=${A[2]}", "4"},
    {"X=1; while ((X < 4)); do ((X*=2)); done", "4"},
    {"X=1; ((X++)); X=$((X++ + 2))", "4"},
    {"X=$((5 & 4))", "4"},
    {"X=$((-3 + 7))", "4"},
    {"X=$(( !0 * 4 ))", "4"},
    {"X=$((7 / 2 + 1))", "4"},
    {"Y=4; X=$(( Y > 2 && Y < 8 ? Y : 1 ))", "4"},
    {"A=qwen3-4b; X=${A##*-}; X=${X%b}", "4"},
    {"A=llama_4B; X=${A//[^0-9]/}", "4"},
    {"A=x-4; X=${A#x-}", "4"},
    {"A=aXb; X=${A/X/4}; X=${X:1:1}", "4"},
    {"i=1; A=(2 4); X=${A[i]}", "4"},
    {"A=(1 3); X=0; for a in ${A[@]}; do ((X+=a)); done", "4"},
    {"A=(1 3); X=0; for ((i=0; i<${#A[@]}; i++)); do X=$((X + A[i])); done", "4"},
    {"A=(1 3); X=0; for ((i=0; i<${#A[@]}; i++)); do X=$((X + ${A[$i]})); done", "4"},
    {"A=(x4 x2); A=(${A[@]/#x/}); X=${A[0]}", "4"},
    {"X=010; X=$((X-4))", "4"},
    {"A=4; X=${A:-8}", "4"},
    {"X=8; X=$((X>>1))", "4"},
    {"let X=4 X*=2", "8"},
    {"let \"X=2*4\" Y=1", "8"},
    {"A=(3 4); (( X = A[1] ))", "4"},
    {"A=(3 4); X=$((A[0]+1))", "4"},
};

ShellWord read(const std::string& script) {
  const ShellScript found = read_shell_script(script + "\nrun \"$X\"", "x.sh");
  if (found.commands.empty() || found.commands.back().words.size() != 2) return {"no word", 1, false};
  return found.commands.back().words[1];
}

TEST(ShellForms, AreReadAsBashEvaluatesThem) {
  for (const auto& [script, value] : kForms) {
    const ShellWord word = read(script);
    EXPECT_TRUE(word.known) << script << ": " << word.reason;
    EXPECT_EQ(word.text, value) << script;
  }
}

TEST(ShellForms, BashEvaluatesThemSo) {
  const fs::path script = fs::path(testing::TempDir()) / "form.sh";
  const fs::path out = fs::path(testing::TempDir()) / "form.out";
  std::ofstream all(script);
  for (const Form& each : kForms) all << "(\nunset X\n" << each.script << "\necho $X\n)\n";
  all.close();
  ASSERT_EQ(std::system(fmt::format("bash {} > {}", script.string(), out.string()).c_str()), 0);
  std::ifstream said(out);
  for (const auto& [form, value] : kForms) {
    std::string line;
    std::getline(said, line);
    EXPECT_EQ(line, value) << form;
  }
  fs::remove(script);
  fs::remove(out);
}

/// Never a wrong value: without what they need, or beyond what is evaluated.
TEST(ShellForms, OthersAreUnknown) {
  for (const char* const script : {"X=$((8*N))",
                                   "X=$((1/0))",
                                   "X=$((2**64))",
                                   "X=$((1<<64))",
                                   "X=$((08))",
                                   "let X=N*2",
                                   "X=1; for ((i=0; i<N; i++)); do X=$i; done",
                                   "X=1; ((N > 2)) && X=2",
                                   "A=$N; X=${A%%x*}",
                                   "A=a-b; X=${A/-/&}",
                                   "A=$(date); X=${#A}",
                                   "A=(1 2); A[$N]=3; X=${A[0]}",
                                   "declare -A A; X=${A[1]}",
                                   "A=\u00e4b; X=${A:0:1}",
                                   "for i in {1..4}{1..2}; do X=$i; done",
                                   "A=(1 2); X=$((A[2]))",
                                   "N=$(x); X=$((N > 0 ? 1 : 2))",
                                   "A=b; X=${A/[[:alpha:]]/4}",
                                   "a=b; X=${!a}",
                                   "X=$((X=Y))",
                                   "A=4; ((A[0]=2)); X=$A"}) {
    EXPECT_FALSE(read(script).known) << script << " = " << read(script).text;
  }
}

TEST(ShellForms, ArithmeticOnlySetsWhatItReaches) {
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  struct Case {
    const char* text;
    std::int64_t value;
    std::map<std::string, std::int64_t> assigned;
  };
  const Case cases[] = {{"1 ? a = 2 : (b = 3)", 2, {{"a", 2}}},
                        {"0 && (a = 1), 1 || (b = 2), c = 3", 3, {{"c", 3}}},
                        {"a = b = 2, a += b", 4, {{"a", 4}, {"b", 2}}},
                        {"a = 1, a++ + ++a", 4, {{"a", 3}}},
                        {"2 ** 3 ** 2", 512, {}},
                        {"10 - 4 - 3", 3, {}},
                        {"1 + 2 * 3 == 7 && 6 % 4 == 2", 1, {}}};
  for (const Case& each : cases) {
    const auto found = shell_arithmetic(each.text, none);
    ASSERT_TRUE(found) << each.text;
    EXPECT_EQ(found->value, each.value) << each.text;
    EXPECT_EQ(found->assigned, each.assigned) << each.text;
  }
}

TEST(ShellForms, BracesAreOneListOrOneRow) {
  EXPECT_THAT(shell_braces("a{1..3}b"), testing::ElementsAre("a1b", "a2b", "a3b"));
  EXPECT_THAT(shell_braces("{2..0}"), testing::ElementsAre("2", "1", "0"));
  EXPECT_THAT(shell_braces("x{,y}"), testing::ElementsAre("x", "xy"));
  for (const char* text : {"{a,b}{c,d}", "{a,{b,c}}", "{01..10}", "{1..9999}", "{$a,b}", "{a..c}", "'{a,b}'"})
    EXPECT_THAT(shell_braces(text), testing::IsEmpty()) << text;
}

}  // namespace
}  // namespace plumbline::shell_forms_test
