#include "core/launch_files/megatron/megatron_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/arguments/argument_table.hpp"
#include "core/launch_files/shell/shell_script.hpp"

namespace plumbline {
namespace {

/// Flags that make a command a training command of Megatron-LM.
constexpr std::string_view kTelling[] = {"--num-layers", "--micro-batch-size", "--tensor-model-parallel-size",
                                         "--hidden-size", "--seq-length"};
constexpr std::string_view kAdvice =
    "expected one that the script sets itself; write it, give its variable with --set, or give "
    "--megatron-args";

std::string dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool is_flag(const ShellWord& word) {
  return word.text.size() > 3 && word.text.starts_with("--") && word.text[2] != '-';
}

std::size_t telling_flags(const std::vector<ShellWord>& words) {
  return static_cast<std::size_t>(std::count_if(words.begin(), words.end(), [](const ShellWord& word) {
    const std::string flag = dashes(word.text.substr(0, word.text.find('=')));
    return std::find(std::begin(kTelling), std::end(kTelling), flag) != std::end(kTelling);
  }));
}

std::int64_t whole_or_zero(const std::string& text) {
  std::int64_t number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0 && number < (1 << 24) ? number
                                                                                                      : 0;
}

/// Nodes and GPUs of each as torchrun, deepspeed, accelerate and Slurm name them. A number that the file does
/// not say leaves the product unknown.
LauncherFacts facts_of(const std::vector<ShellWord>& words, const std::string& name) {
  struct Given {
    std::int64_t count = 0;
    int line = 0;
  };
  std::map<std::string, Given> given;
  bool open = false;  // words that are not known may hold others
  for (std::size_t i = 0; i < words.size(); ++i) {
    open = open || (!words[i].known && words[i].splits && words[i].cause != UnknownCause::unset);
    std::string flag = dashes(words[i].text);
    std::string value = i + 1 < words.size() ? words[i + 1].text : "";
    if (const std::size_t equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    }
    if (flag.starts_with("-"))
      given[flag] = {whole_or_zero(value.substr(value.rfind(':') + 1)), words[i].line};
  }
  const auto one_of = [&](std::initializer_list<const char*> flags) {
    for (const char* flag : flags)
      if (given.contains(flag)) return std::optional(given[flag]);
    return std::optional<Given>();
  };
  const auto all = one_of({"--num-processes"});
  const auto nodes = one_of({"--nnodes", "--num-nodes", "--nodes", "-N"});
  const auto each =
      one_of({"--nproc-per-node", "--num-gpus", "--gpus-per-node", "--ntasks-per-node", "--gres"});
  LauncherFacts facts;
  int line = 0;
  for (const auto& fact : {all, nodes, each})
    if (fact) line = std::max(line, fact->line);
  if (all) {
    facts.world_size = all->count;
  } else if (each) {
    facts.world_size = (nodes ? nodes->count : 1) * each->count;
  }
  if (open) facts.world_size = 0;
  facts.place = fmt::format("{}:{}: GPUs that the launcher starts", name, line);
  return facts;
}

/// The word stands where an option's value is, and the option is without effect.
bool is_idle_value(const std::vector<LaunchArgument>& found) {
  if (found.empty() || !found.back().values.empty()) return false;
  const ArgumentRow* const row = argument_table("megatron_flags.txt").find(found.back().name);
  return row != nullptr && row->fate == ArgumentFate::without_effect;
}

/// The word may be an option, several or none.
bool may_be_options(const ShellWord& word, const std::vector<LaunchArgument>& found) {
  if (word.known || word.cause == UnknownCause::unset) return false;
  if (word.cause == UnknownCause::left_out) return !is_idle_value(found);
  return word.whole && (found.empty() || !found.back().values.empty());
}

[[noreturn]] void refuse_unknown(const ShellWord& word, const std::string& flag, const std::string& name) {
  throw InputError(fmt::format("{}:{}: {}found \"{}\", {}; {}", name, word.line,
                               flag.empty() ? "" : flag + ": ", printable(word.text), word.reason, kAdvice));
}

/// Flags with the words behind them, up to the next flag.
std::vector<LaunchArgument> flags_of(const std::vector<ShellWord>& words, const std::string& name,
                                     std::vector<std::string>& notes) {
  std::vector<LaunchArgument> found;
  for (const ShellWord& word : words) {
    if (may_be_options(word, found))
      refuse_unknown(word, found.empty() || !found.back().values.empty() ? "" : found.back().name, name);
    if (!word.known && word.cause != UnknownCause::unset && word.splits && word.whole)
      notes.push_back(fmt::format("{}:{}: {} is taken as one word", name, word.line, printable(word.text)));
    if (is_flag(word)) {
      const std::size_t equals = word.text.find('=');
      LaunchArgument argument{dashes(word.text.substr(0, equals)),
                              {},
                              fmt::format("{}:{}", name, word.line),
                              word.known,
                              word.reason};
      if (equals != std::string::npos) argument.values.push_back(word.text.substr(equals + 1));
      found.push_back(std::move(argument));
      continue;
    }
    const bool open =
        !word.known && (found.empty() || !found.back().values.empty() || !word.text.starts_with("$"));
    const bool list =
        !word.known &&
        (word.text == "$@" || word.text == "$*" || word.text.find("ARGS") != std::string::npos ||
         word.text.find("PARAMS") != std::string::npos || word.text.find("OPTIONS") != std::string::npos);
    if (list || (open && found.empty())) {
      notes.push_back(fmt::format("{}:{}: {} is not set in the file; arguments in it are missing", name,
                                  word.line, printable(word.text)));
      continue;
    }
    if (found.empty()) continue;
    found.back().values.push_back(word.text);
    if (!word.known) {
      found.back().known = false;
      found.back().unknown_reason = word.reason;
    }
  }
  return found;
}

/// Words of the program behind its Python file, and those before.
std::pair<std::vector<ShellWord>, std::vector<ShellWord>> parted(std::vector<ShellWord> words) {
  const auto first = std::find_if(words.begin(), words.end(), [](const ShellWord& word) {
    const std::string flag = dashes(word.text.substr(0, word.text.find('=')));
    return is_flag(word) && argument_table("megatron_flags.txt").find(flag) != nullptr;
  });
  auto program = words.begin();
  for (auto word = words.begin(); word != first; ++word)
    if (word->text.ends_with(".py")) program = word + 1;
  if (program == words.begin()) {
    const auto later = std::find_if(words.begin(), words.end(),
                                    [](const ShellWord& word) { return word.text.ends_with(".py"); });
    if (later != words.end()) program = later + 1;
  }
  std::vector<ShellWord> before(words.begin(), program);
  return {std::move(before), std::vector<ShellWord>(program, words.end())};
}

/// Programs of Megatron-LM that train other models, or none, have names of these forms.
void require_gpt(const std::vector<ShellWord>& launcher, const std::string& name) {
  if (launcher.empty()) return;
  const std::string& path = launcher.back().text;
  const std::string program = path.substr(path.rfind('/') + 1);
  constexpr std::string_view kOthers[] = {"bert",  "t5",  "ict",        "vision", "retro",
                                          "realm", "vlm", "multimodal", "mamba",  "biencoder"};
  const bool other = program.starts_with("pretrain_") &&
                     std::any_of(std::begin(kOthers), std::end(kOthers), [&](std::string_view each) {
                       return program.find(each) != std::string::npos;
                     });
  const bool generates =
      program.find("generat") != std::string::npos || program.find("server") != std::string::npos;
  if (!other && !generates) return;
  throw InputError(fmt::format("{}:{}: found {}, expected pretrain_gpt.py: other programs are not predicted",
                               name, launcher.back().line, printable(program)));
}

[[noreturn]] void refuse_doubt(const ShellCommand& command, const std::string& name) {
  throw InputError(fmt::format(
      "{}:{}: found a training command that {}; expected one that the script runs for certain; give its "
      "arguments with --megatron-args",
      name, command.line, command.doubt));
}

bool prints(const ShellCommand& command) {
  return !command.words.empty() &&
         (command.words.front().text == "echo" || command.words.front().text == "printf");
}

/// A program whose arguments may be those of training, but are not known.
const ShellWord* hidden_arguments(const ShellCommand& command) {
  const auto is_program = [](const ShellWord& word) { return word.text.ends_with(".py"); };
  if (prints(command) || std::ranges::none_of(command.words, is_program)) return nullptr;
  for (const ShellWord& word : command.words)
    if (!word.known && word.splits && word.cause != UnknownCause::unset) return &word;
  return nullptr;
}

/// Arguments of a file of variables for another script to use.
std::optional<std::vector<ShellWord>> words_of_variables(const ShellScript& script, const std::string& name) {
  std::vector<ShellWord> all;
  for (const ShellCommand& variable : script.variables) {
    if (std::none_of(variable.words.begin(), variable.words.end(), is_flag)) continue;
    if (!variable.doubt.empty()) {
      throw InputError(fmt::format(
          "{}:{}: found a list of arguments that {}, expected one that the script sets itself; give the "
          "arguments with --megatron-args",
          name, variable.line, variable.doubt));
    }
    all.insert(all.end(), variable.words.begin(), variable.words.end());
  }
  return telling_flags(all) < 2 ? std::nullopt : std::optional(std::move(all));
}

/// Words of the training command of a script, and its surroundings.
struct Training {
  ShellScript script;
  std::vector<ShellWord> launcher;
  std::vector<ShellWord> program;
  std::vector<std::string> notes;

  LauncherFacts facts(const std::string& name) const {
    std::vector<ShellWord> outside = script.job_options;
    outside.insert(outside.end(), launcher.begin(), launcher.end());
    return facts_of(outside, name);
  }
};

std::optional<Training> training_of(ShellScript script, const std::string& name) {
  std::vector<const ShellCommand*> training;
  const std::size_t least = name == kMegatronArguments ? 1 : 2;  // there are no other commands
  for (const ShellCommand& command : script.commands)
    if (!prints(command) && telling_flags(command.words) >= least) training.push_back(&command);
  for (const ShellCommand* const command : training)
    if (!command->doubt.empty()) refuse_doubt(*command, name);
  if (training.size() > 1) {
    throw InputError(
        fmt::format("{}: found {} commands with arguments of Megatron-LM, at lines {} and {}; expected "
                    "one; give the arguments of one with --megatron-args",
                    name, training.size(), training[0]->line, training[1]->line));
  }
  Training found;
  std::vector<ShellWord> words;
  if (training.empty()) {
    for (const ShellCommand& command : script.commands)
      if (const ShellWord* const hidden = hidden_arguments(command)) refuse_unknown(*hidden, "", name);
    auto all = words_of_variables(script, name);
    if (!all) return std::nullopt;
    found.notes.push_back(
        fmt::format("{}: starts no training itself; arguments in its variables are taken", name));
    words = std::move(*all);
  } else {
    words = training.front()->words;
    if (!training.front()->presumed.empty()) found.notes.push_back(training.front()->presumed);
  }
  std::tie(found.launcher, found.program) = parted(std::move(words));
  require_gpt(found.launcher, name);
  if (!found.launcher.empty() && found.launcher.back().text.find("pretrain_") != std::string::npos &&
      !found.launcher.back().text.ends_with("pretrain_gpt.py"))
    found.notes.push_back(fmt::format("{}:{}: {} is taken for pretrain_gpt.py", name,
                                      found.launcher.back().line, printable(found.launcher.back().text)));
  found.script = std::move(script);
  return found;
}

/// Names the default values that the number of GPUs follows from: another value makes it another number.
void name_defaults(FoundArguments& found, const Training& training, std::string_view text,
                   const std::string& name, const OtherFile& other, const BesideFile& beside) {
  constexpr std::size_t kMostDefaults = 4;
  std::set<std::string> tried;
  for (const ShellDefault& each : training.script.defaults) {
    if (tried.size() == kMostDefaults || !tried.insert(each.name).second) continue;
    std::map<std::string, std::string> environment = beside.variables;
    environment[each.name] = each.value == "1" ? "2" : "1";
    try {
      const auto with_another =
          training_of(read_shell_script(text, name, other, environment, beside.exported), name);
      if (!with_another || with_another->facts(name).world_size == found.launcher.world_size) continue;
    } catch (const InputError&) {
      continue;
    }
    found.notes.push_back(fmt::format(
        "{}:{}: {} is taken as {}, which makes {} GPUs; --gpus N or --set {}=N gives another number", name,
        each.line, printable(each.text), each.value, found.launcher.world_size, each.name));
  }
}

}  // namespace

std::optional<FoundArguments> arguments_of_script(std::string_view text, const std::string& name,
                                                  const OtherFile& other, const BesideFile& beside) {
  const auto training =
      training_of(read_shell_script(text, name, other, beside.variables, beside.exported), name);
  if (!training) return std::nullopt;
  FoundArguments found;
  found.notes = training->notes;
  found.launcher = training->facts(name);
  if (found.launcher.world_size > 0 && !beside.gives("world_size") && !beside.gives("data_parallel_size"))
    name_defaults(found, *training, text, name, other, beside);
  found.notes.insert(found.notes.end(), training->script.notes.begin(), training->script.notes.end());
  found.arguments = flags_of(training->program, name, found.notes);
  return found;
}

}  // namespace plumbline
