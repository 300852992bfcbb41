// A training command of a launch script, parted, and its words as keys.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_files/arguments/beside_file.hpp"
#include "core/launch_files/arguments/launch_settings.hpp"
#include "core/launch_files/arguments/other_file.hpp"
#include "core/launch_files/shell/shell_command.hpp"

namespace plumbline {

struct ScriptCommand {
  using Words = std::vector<ShellWord>;
  std::string name;  // of the script
  Words launcher;    // up to the program
  Words program;     // behind it
  const OtherFile& other;
  const BesideFile& beside;
  std::map<std::string, std::string> environment;  // set on its line
  Words job_options{};                             // of #SBATCH comments
  std::string program_file{};                      // of a program that its keys tell

  std::string place(const ShellWord& word) const { return name + ":" + std::to_string(word.line); }
};

/// "--key value", "--key=value" and "key=value" as keys without dashes.
std::vector<LaunchArgument> keys_of(const ScriptCommand& command, const std::vector<ShellWord>& words);
/// The last of a name; nullptr: none.
const LaunchArgument* found_in(const std::vector<LaunchArgument>& all, std::string_view name);
void rename_key(std::vector<LaunchArgument>& all, std::string_view from, const std::string& to);
/// Its first value; empty when there is none, or it is not known.
std::string value_of(const std::vector<LaunchArgument>& all, std::string_view name);
/// Sets world_size as the launcher's words and `flags` say, unless the file has it.
void take_gpus(LaunchFile& file, const ScriptCommand& command, std::vector<LaunchArgument> flags = {});

/// ms-swift: its own names for the model and adapters, defaults of its own (swift/llm/argument).
LaunchFile read_swift(const ScriptCommand& command);
/// Megatron-Core under ms-swift: Megatron-LM's names, a model of Hugging Face, defaults of its own
/// (swift/megatron/arguments/megatron_args.py).
LaunchFile read_swift_megatron(const ScriptCommand& command);

}  // namespace plumbline
