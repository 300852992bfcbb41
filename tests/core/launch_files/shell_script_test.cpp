// Commands that launch scripts would run, without running any.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/launch_files/shell/shell_arithmetic.hpp"
#include "core/launch_files/shell/shell_script.hpp"

namespace plumbline {
namespace {

/// Words of the last command, those that are not known in <>.
std::string last_command(const std::string& script) {
  const ShellScript read = read_shell_script(script, "x.sh");
  if (read.commands.empty()) return "none";
  std::string words;
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
      {"A=3\nrun --a $A \"${A}x\" '$A'", "run|--a|3|3x|$A"},
      {"A='1 2'; run $A \"$A\"", "run|1|2|1 2"},
      {"A=(--x 1\n # the rest\n --y 'b c')\nrun ${A[@]} \"${A[@]}\"", "run|--x|1|--y|b|c|--x|1|--y|b c"},
      {"A=(1); A+=(2 3); run ${A[@]}", "run|1|2|3"},
      {"A='-x'; A+=' -y'; run $A", "run|-x|-y"},
      {"N=2; G=8; W=$(($G*N)); run $W $((W / 3 + (1 - 2)))", "run|16|4"},
      {"run ${A:-x} ${B-y} ${1:-z}", "run|x|y|z"},
      {"run $1 $A $(date) `id` ${B%x} \"$@\"", "run|<$1>|<$A>|<$(date)>|<`id`>|<${B%x}>|<$@>"},
      {"A=; run $A b", "run|b"},
      {"export A=1 B=2\nrun $A $B", "run|1|2"},
      {"A=1 run $A", "run|<$A>"},
      {"run \\\n --a \\\n 1", "run|--a|1"},
      {"if [ \"$A\" == b ]; then run 1; else run 2; fi", "run|2"},
      {"A=fp8; if [[ \"$A\" == \"fp8\" && $A != x ]]; then run 1; fi", "run|1"},
      {"A=3; if [ $A -gt 2 ]; then run 1; elif true; then run 2; fi", "run|1"},
      {"if [ -z \"$A\" ]; then run 1; fi", "run|1"},
      {"[ -n \"$A\" ] && run 1; run 2", "run|2"},
      {"run 1; if [ -f x ]; then run 2; fi", "run|1"},
      {"A=b; case $A in\n a) run 1 ;;\n b*|c) run 2 ;;\n *) run 3 ;;\nesac", "run|2"},
      {"run 1\nfor i in 1 2; do run $i; done", "run|1"},
      {"run 1\nf() { run 2; }", "run|1"},
      {"cat <<EOF > x\nrun $A \"\nEOF\nrun 1", "run|1"},
      {"run 1 2>&1 | tee log", "tee|log"},
      {"run 1; exit 0; run 2", "exit|0"},
      {"{ run 1; }", "run|1"},
      {"! false && run 1", "run|1"},
  };
  for (const ScriptCase& each : cases) EXPECT_EQ(last_command(each.script), each.words) << each.script;
}

TEST(ShellScript, NamesWhatItLeavesOut) {
  EXPECT_THAT(read_shell_script("a\nif [ -f x ]; then run --a 1; fi", "x.sh").notes,
              testing::ElementsAre("x.sh:2: the condition of `if` is not decided; its branch is left out"));
  EXPECT_THAT(read_shell_script("while true; do run --a; done", "x.sh").notes,
              testing::ElementsAre("x.sh:1: the loop is left out"));
  EXPECT_THAT(read_shell_script("source a.sh", "x.sh").notes,
              testing::ElementsAre("x.sh:1: `source a.sh` is not read"));
  EXPECT_EQ(read_shell_script("#SBATCH --nodes=4 -N 2 # x\n", "x.sh").job_options.size(), 3U);
}

TEST(ShellScript, HostileScriptsEndInOneLine) {
  std::string growing = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 40; ++i) growing += "A=$A$A\n";
  std::string nested;
  for (int i = 0; i < 5000; ++i) nested += "if true; then\n";
  const std::string scripts[] = {growing,
                                 nested,
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
  for (int i = 0; i < 100'000; ++i) reversed += "! ";
  EXPECT_EQ(read_shell_script(reversed, "x.sh").commands.size(), 0U);
}

TEST(ShellArithmetic, GivesNothingForWhatItCannotCompute) {
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  EXPECT_EQ(shell_arithmetic("2 * (3 + 4) % 5", none), 4);
  for (const char* text :
       {"", "1 +", "1 / 0", "9223372036854775807 + 1", "a", "1 << 2", "(1", "-9223372036854775808 / -1"})
    EXPECT_EQ(shell_arithmetic(text, none), std::nullopt) << text;
}

TEST(ShellScript, ReadsFilesThatItSources) {
  const OtherFile files = [](const std::string& path) -> std::optional<std::string> {
    if (path == "models/a.sh") return "MODEL=(\n  --layers 3\n)\n. again.sh\n";
    if (path == "again.sh") return "source again.sh\nMORE=--more\n";
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
}  // namespace plumbline
