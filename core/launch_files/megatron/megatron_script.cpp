#include "core/launch_files/megatron/megatron_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
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
constexpr std::size_t kMostTextWords = 100;

std::string dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

bool is_flag(const ShellWord& word) {
  return word.text.size() > 3 && word.text.starts_with("--") && word.text[2] != '-';
}

/// Words of a command; one that holds a whole command line is taken apart.
std::vector<ShellWord> flat_words(const ShellCommand& command, const std::string& name) {
  std::vector<ShellWord> words;
  std::size_t texts = 0;
  for (const ShellWord& word : command.words) {
    const bool several = word.text.find(" --") != std::string::npos ||
                         (word.text.starts_with("--") && word.text.find(' ') != std::string::npos);
    if (!several || ++texts > kMostTextWords) {
      words.push_back(word);
      continue;
    }
    for (ShellWord& each : words_of_text(word, name)) {
      if (!word.known && each.text.find('$') != std::string::npos) each.known = false;
      words.push_back(std::move(each));
    }
  }
  return words;
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

/// Nodes and GPUs of each as torchrun, deepspeed, accelerate and Slurm name them.
LauncherFacts facts_of(const std::vector<ShellWord>& words, const std::string& name) {
  std::map<std::string, std::pair<std::int64_t, int>> given;
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string flag = dashes(words[i].text);
    std::string value = i + 1 < words.size() ? words[i + 1].text : "";
    if (const std::size_t equals = flag.find('='); equals != std::string::npos) {
      value = flag.substr(equals + 1);
      flag.resize(equals);
    }
    if (flag.starts_with("-") && whole_or_zero(value.substr(value.rfind(':') + 1)) > 0)
      given[flag] = {whole_or_zero(value.substr(value.rfind(':') + 1)), words[i].line};
  }
  const auto one_of = [&](std::initializer_list<const char*> flags) {
    for (const char* flag : flags)
      if (given.contains(flag)) return given[flag];
    return std::pair<std::int64_t, int>(0, 0);
  };
  const auto all = one_of({"--num-processes"});
  const auto nodes = one_of({"--nnodes", "--num-nodes", "--nodes", "-N"});
  const auto each =
      one_of({"--nproc-per-node", "--num-gpus", "--gpus-per-node", "--ntasks-per-node", "--gres"});
  LauncherFacts facts;
  const int line = std::max({all.second, nodes.second, each.second});
  if (all.first > 0) {
    facts.world_size = all.first;
  } else if (each.first > 0) {
    facts.world_size = std::max<std::int64_t>(1, nodes.first) * each.first;
  }
  facts.place = fmt::format("{}:{}: GPUs that the launcher starts", name, line);
  return facts;
}

/// Flags with the words behind them, up to the next flag.
std::vector<LaunchArgument> flags_of(const std::vector<ShellWord>& words, const std::string& name,
                                     std::vector<std::string>& notes) {
  std::vector<LaunchArgument> found;
  for (const ShellWord& word : words) {
    if (is_flag(word)) {
      const std::size_t equals = word.text.find('=');
      LaunchArgument argument{
          dashes(word.text.substr(0, equals)), {}, fmt::format("{}:{}", name, word.line), word.known};
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
    if (!word.known) found.back().known = false;
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
  const bool other = program.starts_with("pretrain_") && program != "pretrain_gpt.py";
  const bool generates =
      program.find("generat") != std::string::npos || program.find("server") != std::string::npos;
  if (!other && !generates) return;
  throw InputError(fmt::format("{}:{}: found {}, expected pretrain_gpt.py: other programs are not predicted",
                               name, launcher.back().line, printable(program)));
}

}  // namespace

std::optional<FoundArguments> arguments_of_script(std::string_view text, const std::string& name,
                                                  const OtherFile& other) {
  ShellScript script = read_shell_script(text, name, other);
  FoundArguments found;
  std::vector<std::vector<ShellWord>> training;
  std::vector<int> lines;
  const std::size_t least = name == kMegatronArguments ? 1 : 2;  // there are no other commands
  for (const ShellCommand& command : script.commands) {
    std::vector<ShellWord> words = flat_words(command, name);
    const bool prints = !words.empty() && (words.front().text == "echo" || words.front().text == "printf");
    if (prints || telling_flags(words) < least) continue;
    training.push_back(std::move(words));
    lines.push_back(command.line);
  }
  if (training.size() > 1) {
    throw InputError(
        fmt::format("{}: found {} commands with arguments of Megatron-LM, at lines {} and {}; expected "
                    "one; give the arguments of one with --megatron-args",
                    name, training.size(), lines[0], lines[1]));
  }
  std::vector<ShellWord> outside = script.job_options;
  if (training.empty()) {
    // A file of variables for another script to use.
    std::vector<ShellWord> all;
    for (const ShellCommand& variable : script.variables) {
      std::vector<ShellWord> words = flat_words(variable, name);
      if (std::none_of(words.begin(), words.end(), is_flag)) continue;
      all.insert(all.end(), std::make_move_iterator(words.begin()), std::make_move_iterator(words.end()));
    }
    if (telling_flags(all) < 2) return std::nullopt;
    found.notes.push_back(
        fmt::format("{}: starts no training itself; arguments in its variables are taken", name));
    training.push_back(std::move(all));
  }
  auto [launcher, program] = parted(std::move(training.front()));
  require_gpt(launcher, name);
  outside.insert(outside.end(), launcher.begin(), launcher.end());
  found.launcher = facts_of(outside, name);
  found.notes.insert(found.notes.end(), script.notes.begin(), script.notes.end());
  found.arguments = flags_of(program, name, found.notes);
  return found;
}

}  // namespace plumbline
