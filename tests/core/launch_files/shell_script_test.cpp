// Commands that launch scripts would run, without running any.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/launch_files/shell/shell_arithmetic.hpp"
#include "core/launch_files/shell/shell_script.hpp"

namespace plumbline::shell_script_test {
namespace {

/// Words of the last command, those that are not known in <>.
std::string last_command(const std::string& script) {
  const ShellScript read = read_shell_script(script, "x.sh");
  if (read.commands.empty()) return "none";
  std::string words = read.commands.back().doubt;
  for (const ShellWord& word : read.commands.back().words)
    words += (words.empty() ? "" : "|") + (word.known ? word.text : "<" + word.text + ">");
  return words;
}

struct ScriptCase {
  const char* script;
  const char* words;
};

TEST(ShellScript, ExpandsWhatTheScriptSets) {
  const ScriptCase cases[] = {
      {"run --a 1 # b\n", "run|--a|1"},
      {"if [ -n \"$A\" ]; then B=2; fi; run ${B:-1}", "run|1"},
      {"if [ \"$A\" = x ]; then B=2; fi; run ${B:-1}", "run|1"},
      {"if [[ $A -eq 1 || -n $A ]]; then B=2; fi; run ${B:-1}", "run|1"},
      {"A=3\nrun --a $A \"${A}x\" '$A'", "run|--a|3|3x|$A"},
      {"A='1 2'; run $A \"$A\"", "run|1|2|1 2"},
      {"A=(--x 1\n # the rest\n --y 'b c')\nrun ${A[@]} \"${A[@]}\"", "run|--x|1|--y|b|c|--x|1|--y|b c"},
      {"A=(1); A+=(2 3); run ${A[@]} ${A[1]}", "run|1|2|3|2"},
      {"A=(1 2); A+=3; run ${A[@]}; ", "run|13|2"},
      {"A=(1 2); A=5; run \"${A[*]}\"", "run|5 2"},
      {"A=(); run \"${A[@]}\" b", "run|b"},
      {"A='-x'; A+=' -y'; run $A", "run|-x|-y"},
      {"N=2; G=8; W=$(($G*N)); run $W $((W / 3 + (1 - 2))) $((${Z:-3} * N))", "run|16|4|6"},
      {"N=4; run $(expr 16 / $N \\* 2 - 1) \"$(expr 2 '*' 3)\" $(expr 010 + 1) $(expr $X + 1) $(expr a : b)",
       "run|7|6|<$(expr 010 + 1)>|<$(expr $X + 1)>|<$(expr a : b)>"},
      {"run ${A:-x} ${B-y} ${1:-z} ${C:---u 1}", "run|x|y|z|--u|1"},
      {"run $1 $A $(date) `id` ${B%x} \"$@\"", "run|<$1>|<$A>|<$(date)>|<`id`>|<${B%x}>|<$@>"},
      {"A=; run $A b", "run|b"},
      {"export A=1 \"B=2\"\nrun $A $B", "run|1|2"},
      {"A=1 run $A", "run|<$A>"},
      {"run \\\n --a \\\n 1", "run|--a|1"},
      {"run --tp 2 > log", "run|--tp|2"},
      {"run --tp 2> log", "run|--tp"},
      {"run *.py {a,b} ~/x '*'", "run|<*.py>|a|b|<~/x>|*"},
      {"set -- 4 2; X=$1; shift; run $X $1 $#", "run|4|2|1"},
      {"if [ \"$A\" == b ]; then run 1; else run 2; fi", "run|2"},
      {"A=fp8; if [[ \"$A\" == \"fp8\" && $A != x ]]; then run 1; fi", "run|1"},
      {"A=3; if [ $A -gt 2 ]; then run 1; elif true; then run 2; fi", "run|1"},
      {"if [ -z \"$A\" ]; then run 1; fi", "run|1"},
      {"A=abc; if [ $A = a* ]; then run 1; fi; run 2", "run|2"},
      {"A=abc; if [[ $A = \"a*\" ]]; then run 1; else run 2; fi", "run|2"},
      {"[ -n \"$A\" ] && run 1; run 2", "run|2"},
      {"A=1; [ $A = 2 ] || A=3; run $A", "run|3"},
      {"A=b; case $A in\n a) run 1 ;;\n b*|c) run 2 ;;\n *) run 3 ;;\nesac", "run|2"},
      {"case x in x) A=1 ;& y) B=2 ;; *) B=3;; esac; run $A $B", "run|1|2"},
      {"for i in 1 2; do A+=$i; done; run $A", "run|12"},
      {"I=0; while [ $I -lt 3 ]; do I=$((I + 1)); done; run $I", "run|3"},
      {"f() { local A=2; B=$1; }\nA=1; f 5; run $A $B", "run|1|5"},
      {"run 1\nf() { run 2; }", "run|1"},
      {"A=1; ( A=2 ); A=3 | cat; A=4 & run $A", "run|1"},
      {"A=1; eval 'A=$((A + 1))'; run $A", "run|2"},
      {"cat <<EOF > x\nrun $A \"\nEOF\nrun 1", "run|1"},
      {"run 1 2>&1 | tee log", "tee|log"},
      {"run 1; exit 0; run 2", "exit|0"},
      {"{ run 1; }", "run|1"},
      {"! false && run 1", "run|1"},
      {"sh -c \"cd x && run --aa 1 'b c'\"", "sh|-c|run|--aa|1|b c"},
      {"sh -c 'run --aa $A'", "sh|-c|run|--aa|<$A>"},
  };
  for (const ScriptCase& each : cases) EXPECT_EQ(last_command(each.script), each.words) << each.script;
}

/// Code that is not evaluated may set A; then it is unknown, with the line that may set it.
TEST(ShellScript, WhatOtherCodeMaySetIsUnknown) {
  const char* const scripts[] = {"if [ -f x ]; then\nA=2\nfi",
                                 "if [ -f x ]; then :; else\nA=2\nfi",
                                 "x ||\nA=2",
                                 "x &&\nA=2",
                                 "[ -f x ] ||\nA=2",
                                 "x;\nread A",
                                 "x;\nread -ra A",
                                 "x;\nmapfile A",
                                 "x;\nprintf -v A 2",
                                 "x;\nlet A=B",
                                 "x;\n((A=B))",
                                 "x;\n((A+=B))",
                                 "x;\nx $((A=B))",
                                 "x;\nfor ((A=1; A<B; A++)); do :; done",
                                 "for i in $(x); do\nA=$i\ndone",
                                 "while x; do\nA=2\ndone",
                                 "x;\nselect A in 1; do :; done",
                                 "while read B; do\nA=$B\ndone",
                                 "x;\neval \"$(x)\"",
                                 "x;\nsource x",
                                 "x;\n. x",
                                 "x;\ndeclare -i A=2",
                                 "x;\ndeclare \"$(x)\"",
                                 "x;\nexport $(x)",
                                 "x;\nA[1]=2",
                                 "x;\n[[ A=2 -gt 1 ]]",
                                 "x;\ngetopts a A",
                                 "case $(x) in y)\nA=2;; esac",
                                 "x;\n: ${B[A=1]}",
                                 "f() {\nA=2; }\n[ -f x ] && f",
                                 "f() { [ -f x ] || return;\nA=2; }\nf",
                                 "while x; do y && break\nA=2\ndone",
                                 "x;\n\"$(x)\" A",
                                 "source x\nsetup",
                                 "x;\nA=3 eval ''",
                                 "x;\nexec {A}< x"};
  for (const std::string script : scripts) {
    const ShellScript read = read_shell_script("A=1; " + script + "\nrun $A", "x.sh");
    const ShellWord& word = read.commands.back().words.back();
    EXPECT_FALSE(word.known) << script;
    EXPECT_EQ(word.cause, UnknownCause::left_out) << script;
    EXPECT_EQ(word.reason.find("which line 2 of x.sh may set") == std::string::npos,
              script.starts_with("source"))
        << script << ": " << word.reason;
  }
  for (const char* script : {"declare -n B=A; B=2", "shopt -s lastpipe; echo 2 | read A", "set -o posix",
                             "trap 'A=2' DEBUG", "readonly A; A=2"})
    EXPECT_NE(read_shell_script(fmt::format("A=1; {}\nrun $A", script), "x.sh").commands.back().doubt, "")
        << script;
}

TEST(ShellScript, CommandsThatMayNotRunAreInDoubt) {
  const char* const scripts[] = {"if [ -f x ]; then run --a; fi",
                                 "[ -f x ] && run --a",
                                 "x || run --a",
                                 "while x; do run --a; done",
                                 "for i in $(x); do run --a; done",
                                 "f() { run --a; }; [ -f x ] && f",
                                 "case $(x) in y) run --a;; esac",
                                 "eval \"$(x)\"; shopt -s extglob; run --a"};
  for (const char* script : scripts) {
    const ShellScript read = read_shell_script(script, "x.sh");
    ASSERT_FALSE(read.commands.empty()) << script;
    EXPECT_NE(read.commands.back().doubt, "") << script;
  }
  const ShellScript presumed = read_shell_script("cd x && run --a", "x.sh");
  EXPECT_EQ(presumed.commands.back().doubt, "");
  EXPECT_NE(presumed.commands.back().presumed, "");
}

TEST(ShellScript, NamesWhatItLeavesOut) {
  EXPECT_THAT(read_shell_script("source a.sh", "x.sh").notes,
              testing::ElementsAre("x.sh:1: `source a.sh` is not read"));
  EXPECT_THAT(
      read_shell_script("x || exit 1", "x.sh").notes,
      testing::ElementsAre("x.sh:1: the script may end here, since it is not known if the command before "
                           "`||` fails"));
  EXPECT_EQ(read_shell_script("#SBATCH --nodes=4 -N 2 # x\n", "x.sh").job_options.size(), 3U);
}

TEST(ShellScript, HostileScriptsEndInOneLine) {
  std::string growing = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) growing += "A=$A$A\n";
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += "if true; then\n";
  const std::string scripts[] = {growing,
                                 nested,
                                 "f() { f; f; }; f",
                                 "while true; do A+=xxxxxxxx; done",
                                 "run 'a",
                                 "run \"a",
                                 "A=(1 2",
                                 "run $(a",
                                 "run ${a",
                                 std::string(100'000, '('),
                                 "run " + std::string(100'000, '"') + "\"",
                                 std::string(300'000, '\n'),
                                 "A=" + std::string(5000, '(')};
  for (const std::string& script : scripts) {
    try {
      read_shell_script(script, "x.sh");
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  std::string reversed;
  for (int i = 0; i < 90'000; ++i) reversed += "! ";
  EXPECT_EQ(read_shell_script(reversed + "a", "x.sh").commands.size(), 1U);
}

TEST(ShellArithmetic, GivesNothingForWhatItCannotCompute) {
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  EXPECT_EQ(shell_arithmetic("2 * (3 + 4) % 5", none).value().value, 4);
  for (const char* text :
       {"", "1 +", "1 / 0", "9223372036854775807 + 1", "a", "1 << 63", "(1", "-9223372036854775808 / -1"})
    EXPECT_FALSE(shell_arithmetic(text, none)) << text;
}

TEST(ShellScript, ReadsFilesThatItSources) {
  const OtherFile files = [](const std::string& path) -> std::optional<std::string> {
    if (path == "models/a.sh") return "MODEL=(\n  --layers 3\n)\n. again.sh\n";
    if (path == "again.sh") return "MORE=--more\n";
    return std::nullopt;
  };
  for (const char* const path : {"models/a.sh", "$(dirname \"$0\")/models/a.sh", "${HERE}/models/a.sh"}) {
    const std::string script = fmt::format("\n. \"{}\"\nrun ${{MODEL[@]}} $MORE\n", path);
    const ShellScript read = read_shell_script(script, "x.sh", files);
    ASSERT_FALSE(read.commands.empty());
    const std::vector<ShellWord>& words = read.commands.back().words;
    ASSERT_EQ(words.size(), 4U) << path;
    EXPECT_EQ(words[1].text + words[2].text + words[3].text, "--layers3--more");
    EXPECT_EQ(words[1].line, 2) << "the command that sources it";
  }
  const ShellScript missing = read_shell_script("source b.sh\nsource $X\nrun", "x.sh", files);
  EXPECT_THAT(missing.notes,
              testing::ElementsAre("x.sh:1: `source b.sh` is not read", "x.sh:2: `source $X` is not read"));
}

}  // namespace
}  // namespace plumbline::shell_script_test
