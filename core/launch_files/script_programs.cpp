#include "core/launch_files/script_programs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/keyed_files.hpp"
#include "core/launch_files/arguments/named_model.hpp"
#include "core/launch_files/megatron/megatron_yaml.hpp"
#include "core/launch_files/reinforcement/slime.hpp"
#include "core/launch_files/reinforcement/verl_ppo.hpp"
#include "core/launch_files/script_command.hpp"
#include "core/launch_files/shell/shell_script.hpp"
#include "core/launch_files/torch/axolotl_settings.hpp"
#include "core/launch_files/torch/hugging_face_settings.hpp"
#include "core/launch_files/torch/titan/torchtitan_registry.hpp"
#include "core/launch_files/torch/titan/torchtitan_settings.hpp"
#include "core/launch_files/torch/torchtune_settings.hpp"
#include "core/launch_files/torch/verl_settings.hpp"

namespace plumbline {
namespace {

using Command = ScriptCommand;
using Words = ScriptCommand::Words;
using Arguments = std::vector<LaunchArgument>;

struct Program {
  std::string_view framework;
  std::string_view first;   // a word, or its end behind a slash
  std::string_view second;  // the word behind it; empty: any
  LaunchFile (*read)(const Command& command);
};

std::string other_text(const Command& command, const LaunchArgument& argument, const char* expected) {
  const std::string path = argument.values.empty() ? "" : argument.values.front();
  auto text = command.other && argument.known ? command.other(path) : std::nullopt;
  if (!text)
    throw InputError(fmt::format("{}: {}: found {}, which is not here, expected {}; put it beside the script",
                                 argument.place, argument.name, printable(path), expected));
  return *text;
}

/// TrainingArguments, with Accelerate's configuration where its launcher names one.
LaunchFile read_trainer(const Command& command) {
  Arguments keys = keys_of(command, command.program);
  const Arguments launcher = keys_of(command, command.launcher);
  if (const LaunchArgument* const config = found_in(launcher, "config_file")) {
    const bool told = command.beside.gives("zero_stage") && command.beside.gives("software");
    if (!told || (command.other && !config->values.empty() && command.other(config->values.front()))) {
      const std::string text = other_text(
          command, *config, "Accelerate's configuration, or --software and --zero-stage in its place");
      for (LaunchArgument& each : yaml_arguments(text, config->values.front()))
        keys.push_back(std::move(each));
    }
  }
  constexpr std::string_view kOfLauncher[] = {"use_deepspeed", "use_fsdp", "deepspeed_config_file",
                                              "zero_stage"};
  for (const LaunchArgument& each : launcher) {
    if (std::find(std::begin(kOfLauncher), std::end(kOfLauncher), each.name) == std::end(kOfLauncher))
      continue;
    keys.push_back(each);
  }
  if (found_in(keys, "use_deepspeed") != nullptr)
    keys.push_back({"distributed_type", {"DEEPSPEED"}, command.name});
  if (found_in(keys, "use_fsdp") != nullptr) keys.push_back({"distributed_type", {"FSDP"}, command.name});
  std::erase_if(keys, [](const LaunchArgument& each) {
    return each.name == "use_deepspeed" || each.name == "use_fsdp";
  });
  rename_key(keys, "zero_stage", "deepspeed_config.zero_stage");
  rename_key(keys, "deepspeed_config_file", "deepspeed_config.deepspeed_config_file");
  LaunchFile file = trainer_launch(std::move(keys), command.other, command.beside);
  take_gpus(file, command);
  return file;
}

/// Keys of the YAML file behind the command, with the command's over them.
Arguments yaml_and_flags(const Command& command, const char* expected) {
  const auto yaml = std::find_if(command.program.begin(), command.program.end(), [](const ShellWord& word) {
    return word.text.ends_with(".yaml") || word.text.ends_with(".yml");
  });
  Arguments keys;
  if (yaml != command.program.end()) {
    const LaunchArgument file{"train", {yaml->text}, command.place(*yaml), yaml->known, yaml->reason};
    keys = yaml_arguments(other_text(command, file, expected), yaml->text);
  }
  for (LaunchArgument& each : keys_of(command, command.program)) keys.push_back(std::move(each));
  return keys;
}

LaunchFile read_factory(const Command& command) {
  LaunchFile file =
      trainer_launch(yaml_and_flags(command, "LLaMA-Factory's configuration"), command.other, command.beside);
  take_gpus(file, command);
  return file;
}

LaunchFile read_axolotl(const Command& command) {
  LaunchFile file =
      axolotl_launch(yaml_and_flags(command, "Axolotl's configuration"), command.other, command.beside);
  take_gpus(file, command);
  return file;
}

/// A TOML file or a registered configuration, and keys over it, in torchtitan's own names.
LaunchFile read_titan(const Command& command) {
  Arguments keys;
  Arguments flags = keys_of(command, command.program);
  const LaunchArgument* const named = found_in(flags, "config");
  if (named != nullptr) {
    const LaunchArgument registered = *named;
    std::erase_if(flags, [](const LaunchArgument& each) {
      return each.name == "config" || each.name == "module" || each.name.starts_with("comm.");
    });
    LaunchFile file = torchtitan_launch(torchtitan_registered(registered, std::move(flags)), command.beside);
    file.notes.emplace_back("graphs of whole steps (training.disable_cuda_graphs) are not predicted");
    take_gpus(file, command);
    return file;
  }
  if (const LaunchArgument* const config = found_in(flags, "job.config_file"))
    keys = toml_arguments(other_text(command, *config, "torchtitan's job configuration"),
                          config->values.front());
  for (const LaunchArgument& each : flags)
    if (each.name != "job.config_file") keys.push_back(each);
  LaunchFile file = torchtitan_launch(std::move(keys), command.beside);
  take_gpus(file, command);
  return file;
}

/// A configuration in YAML and keys over it.
LaunchFile read_tune(const Command& command) {
  const auto first = std::find_if(command.program.begin(), command.program.end(),
                                  [](const ShellWord& word) { return word.text.starts_with("--config"); });
  Arguments flags = keys_of(command, Words(first, command.program.end()));
  Arguments keys;
  if (const LaunchArgument* const config = found_in(flags, "config"))
    keys = yaml_arguments(other_text(command, *config, "torchtune's configuration"), config->values.front());
  for (LaunchArgument& each : flags)
    if (each.name != "config") keys.push_back(std::move(each));
  LaunchFile file = torchtune_launch(std::move(keys), command.beside);
  take_gpus(file, command, keys_of(command, Words(command.program.begin(), first)));
  return file;
}

LaunchFile read_verl(const Command& command) {
  LaunchFile file = verl_sft_launch(keys_of(command, command.program), command.beside);
  take_gpus(file, command);
  return file;
}

LaunchFile read_verl_steps(const Command& command) {
  return verl_ppo_launch(keys_of(command, command.program), command.beside);
}

/// slime's train.py, or its train_async.py.
LaunchFile read_slime(const Command& command) {
  const bool async = command.program_file.ends_with("train_async.py");
  return slime_launch(keys_of(command, command.program), async, command.beside);
}

/// Overrides of a recipe of Megatron-Bridge.
LaunchFile read_bridge(const Command& command) {
  Arguments keys = keys_of(command, command.program);
  const std::string recipe = value_of(keys, "recipe");
  std::erase_if(keys, [](const LaunchArgument& each) { return each.name.find('.') == std::string::npos; });
  LaunchFile file = megatron_keys_launch(std::move(keys), true, command.beside);
  std::string_view name = recipe;
  for (const std::string_view end : {"_config", "_pretrain", "_sft", "_peft"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  if (const ModelConfig* const preset = preset_of_name(name))
    file.settings.push_back(
        {"model", preset->name, fmt::format("the name of the recipe {}", printable(recipe))});
  file.notes.push_back(
      fmt::format("the recipe {} is not read: its sequence length, batch and parallel sizes count only "
                  "where options or overrides give them",
                  printable(recipe)));
  take_gpus(file, command);
  return file;
}

constexpr Program kPrograms[] = {
    {"ms-swift (Megatron-Core)", "megatron", "sft", read_swift_megatron},
    {"ms-swift (Megatron-Core)", "megatron", "pt", read_swift_megatron},
    {"ms-swift", "swift", "sft", read_swift},
    {"ms-swift", "swift", "pt", read_swift},
    {"ms-swift", "cli/sft.py", "", read_swift},
    {"ms-swift (Megatron-Core)", "cli/_megatron/sft.py", "", read_swift_megatron},
    {"LLaMA-Factory", "llamafactory-cli", "train", read_factory},
    {"LLaMA-Factory", "src/train.py", "", read_factory},
    {"TRL", "trl", "sft", read_trainer},
    {"Axolotl", "axolotl", "train", read_axolotl},
    {"Axolotl", "axolotl.cli.train", "", read_axolotl},
    {"verl", "verl.trainer.fsdp_sft_trainer", "", read_verl},
    {"verl", "verl.trainer.main_ppo", "", read_verl_steps},
    {"verl", "verl.experimental.one_step_off_policy.main_ppo", "", read_verl_steps},
    {"verl", "recipe.one_step_off_policy.main_ppo", "", read_verl_steps},
    {"verl", "recipe.dapo.main_dapo", "", read_verl_steps},
    {"torchtune", "tune", "run", read_tune},
    {"torchtitan", "torchtitan.train", "", read_titan},
    {"Megatron-Bridge", "run_recipe.py", "", read_bridge},
};
/// Keys that tell a program whose name does not.
constexpr std::pair<std::string_view, LaunchFile (*)(const Command&)> kTellingNames[] = {
    {"job.config_file", read_titan},
    {"per_device_train_batch_size", read_trainer},
    {"rollout_batch_size", read_slime},
};

bool is_word(const ShellWord& word, std::string_view wanted) {
  return word.text == wanted || (word.text.size() > wanted.size() && word.text.ends_with(wanted) &&
                                 word.text[word.text.size() - wanted.size() - 1] == '/');
}

bool is_program(const ShellWord& word) {
  return word.text.ends_with(".py");
}

/// Preferences and reinforcement learning of ms-swift, whose keys are those of fine-tuning and others.
bool is_rlhf(const Words& words) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if ((is_word(words[i], "swift") || is_word(words[i], "megatron")) && words[i + 1].text == "rlhf")
      return true;
  return std::any_of(words.begin(), words.end(),
                     [](const ShellWord& word) { return is_word(word, "rlhf.py"); });
}

/// The reader of a command, whose words are parted; nullptr: none.
LaunchFile (*reader_of(const Words& words, Command& command))(const Command&) {
  if (is_rlhf(words)) return nullptr;
  for (const Program& each : kPrograms) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (!is_word(words[i], each.first)) continue;
      const bool second = each.second.empty() || (i + 1 < words.size() && words[i + 1].text == each.second);
      if (!second) continue;
      const auto program = words.begin() + static_cast<std::ptrdiff_t>(i);
      const auto begin = program + (each.second.empty() ? 1 : 2);
      command.launcher.assign(words.begin(), program);
      command.program.assign(begin, words.end());
      return each.read;
    }
  }
  const auto program = std::find_if(words.begin(), words.end(), is_program);
  const auto module =
      std::find_if(words.begin(), words.end(), [](const ShellWord& word) { return word.text == "-m"; });
  auto begin = program != words.end()  ? program + 1
               : module == words.end() ? words.begin()
                                       : std::next(module);
  command.launcher.assign(words.begin(), begin == words.begin() ? begin : std::prev(begin));
  command.program.assign(begin, words.end());
  if (begin != words.begin()) command.program_file = std::prev(begin)->text;
  const Arguments keys = keys_of(command, command.program);
  for (const auto& [key, read] : kTellingNames)
    if (found_in(keys, key) != nullptr) return read;
  return nullptr;
}

}  // namespace

std::optional<LaunchFile> program_launch(std::string_view text, const std::string& name,
                                         const OtherFile& other, const BesideFile& beside) {
  const ShellScript script = read_shell_script(text, name, other, beside.variables, beside.exported);
  std::optional<Command> found;
  LaunchFile (*read)(const Command&) = nullptr;
  for (const ShellCommand& each : script.commands) {
    if (each.words.empty() || each.words.front().text == "echo") continue;
    Command command{name, {}, {}, other, beside, each.environment, script.job_options};
    const auto reader = reader_of(each.words, command);
    if (reader == nullptr) continue;
    if (!each.doubt.empty())
      throw InputError(
          fmt::format("{}:{}: found a training command that {}; expected one that the script runs for "
                      "certain; write it alone in a script",
                      name, each.line, each.doubt));
    if (read != nullptr)
      throw InputError(
          fmt::format("{}:{}: found a second training command, expected one; write it alone in a script",
                      name, each.line));
    read = reader;
    found.emplace(std::move(command));
  }
  if (read == nullptr) return std::nullopt;
  LaunchFile file = read(*found);
  file.notes.insert(file.notes.end(), script.notes.begin(), script.notes.end());
  return file;
}

}  // namespace plumbline
