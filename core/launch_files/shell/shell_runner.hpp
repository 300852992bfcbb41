// Evaluates the commands of a script (shell_script.hpp).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/arguments/other_file.hpp"
#include "core/launch_files/shell/shell_command.hpp"
#include "core/launch_files/shell/shell_expansion.hpp"
#include "core/launch_files/shell/shell_test.hpp"

namespace plumbline {

class ShellRunner {
 public:
  ShellRunner(const std::string& name, const OtherFile& other) : context_{name}, other_(other) {}
  /// `state`: the environment.
  ShellScript script(std::string_view text, ShellState state);

 private:
  using Halt = ShellState::Halt;
  using Words = std::vector<ShellWord>;

  // Control flow (shell_script.cpp, shell_conditions.cpp, shell_loops.cpp).
  Truth run(const ShellNode& node, ShellState& state);
  Truth chain(const ShellNode& node, ShellState& state);
  Truth pipeline(const ShellNode& node, ShellState& state);
  Truth branch(const ShellNode& node, ShellState& state);
  Truth arithmetic(const std::string& written, const std::string& shown, int line, ShellState& state);
  Truth loop(const ShellNode& node, ShellState& state);
  Truth each(const ShellNode& node, ShellState& state);
  Truth choice(const ShellNode& node, ShellState& state);
  Truth test(const ShellNode& node, ShellState& state);
  Truth subshell(const ShellNode& node, ShellState state);
  Truth text(std::string_view text, int line, ShellState& state);
  /// Runs the command substitutions of the last command for the commands in them.
  void substituted(const ShellState& state);

  using Code = std::function<void(ShellState&)>;
  /// Runs code that may run any number of times.
  void repeatedly(ShellState& state, int line, const std::string& why, const Code& code);
  /// The state after two ways, one of which was taken.
  ShellState joined(ShellState a, ShellState b, int line, const std::string& why);
  /// States that left a loop, or returned.
  void rejoin(std::vector<ShellState>& left, ShellState& state, Halt halt, int line, const std::string& why);

  // Commands (shell_commands.cpp, those of bash itself in shell_builtins.cpp).
  Truth command(const ShellNode& node, ShellState& state);
  Truth simple(const std::vector<ShellToken>& tokens, Words words, int line, ShellState& state);
  Truth call(const std::string& name, const Words& words, int line, ShellState& state);
  Truth declare(const std::vector<ShellToken>& tokens, const Words& words, int line, ShellState& state);
  Truth source(const Words& words, int line, ShellState& state);
  Truth evaluate(const Words& words, int line, ShellState& state);
  Truth set_options(const Words& words, int line, ShellState& state);
  void taint_targets(const Words& words, int line, ShellState& state);
  void trap(const Words& words, int line, ShellState& state);
  void redirect(const ShellNode& node, ShellState& state);
  void record(Words words, int line, const ShellState& state);
  /// Words of the only command with options in a text; the text itself when there is none.
  Words words_of_text(const ShellWord& word, std::string& doubt);
  ShellWord shown(ShellWord word) const;
  std::string taint(int line, const std::string& what) const { return shell_taint(context_, line, what); }
  /// The reason why a command in this state may not run, or not as written.
  std::string doubt_of(const ShellState& state) const;
  void note(int line, const std::string& what);
  /// Counts a copy of a state.
  void count(const ShellState& state);

  ShellContext context_;
  const OtherFile& other_;
  ShellScript script_;
  std::map<std::string, std::string> environment_;  // of the command at hand
  std::string doubt_;                               // the reason why the code at hand may not run
  std::vector<std::vector<ShellState>> left_loops_;
  std::vector<std::vector<ShellState>> returned_;
  std::string at_exit_;
  bool status_of_program_ = false;  // of the last command
  bool in_text_ = false;            // of another shell
  bool in_condition_ = false;       // set -e does not count
  bool moved_ = false;              // `cd` went to a folder of the script's choice
  int sourced_ = 0;
  int depth_ = 0;
  long commands_run_ = 0;
  std::size_t copied_ = 0;
};

}  // namespace plumbline
