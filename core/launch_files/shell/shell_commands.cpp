// Commands of scripts: what each is, and the calls of functions.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/shell/shell_runner.hpp"

namespace plumbline {
namespace {

using Names = std::set<std::string_view>;

constexpr std::size_t kMostTextWords = 100;

const Names& declaring() {
  static const Names kNames = {"export", "declare", "local", "readonly", "typeset"};
  return kNames;
}

/// Commands of bash that set no variable and succeed.
const Names& harmless() {
  static const Names kNames = {":", "true", "echo", "alias", "unalias", "umask", "ulimit", "hash", "disown"};
  return kNames;
}

/// Commands of bash without effect on variables, and programs that no file defines again as functions.
const Names& plain() {
  static const Names kNames = {
      "[",        "test",    "type",   "kill",    "jobs",       "times",     "bg",         "fg",    "caller",
      "compgen",  "history", "dirs",   "help",    "suspend",    "awk",       "basename",   "bash",  "cat",
      "chmod",    "cp",      "cut",    "date",    "df",         "dirname",   "du",         "env",   "find",
      "free",     "git",     "grep",   "head",    "hostname",   "ibstat",    "ln",         "ls",    "lscpu",
      "mkdir",    "mktemp",  "mpirun", "mv",      "nproc",      "numactl",   "nvidia-smi", "pip",   "pip3",
      "pkill",    "ps",      "pwd",    "python",  "python3",    "ray",       "realpath",   "rm",    "rsync",
      "scontrol", "sed",     "seq",    "sh",      "sleep",      "sort",      "srun",       "ssh",   "tail",
      "tar",      "tee",     "time",   "timeout", "torchrun",   "touch",     "tr",         "uname", "wc",
      "wget",     "which",   "whoami", "xargs",   "accelerate", "deepspeed", "nsys",       "cd"};
  return kNames;
}

bool is_option(const ShellWord& word) {
  return word.text.size() > 3 && word.text.starts_with("--") && word.text[2] != '-';
}

/// A word of one part that the file does not set: nothing, when it is run without arguments.
bool is_absent(const ShellWord& word, const UnknownParts& parts) {
  return word.splits && UnknownParts::without(word.text).empty() &&
         parts.of(word.text)->cause == UnknownCause::unset;
}

}  // namespace

std::string ShellRunner::doubt_of(const ShellState& state) const {
  return !doubt_.empty() || state.doubt.empty() ? doubt_ : "comes after " + state.doubt;
}

ShellWord ShellRunner::shown(ShellWord word) const {
  if (const UnknownPart* const part = context_.unknown.of(word.text)) {
    word.known = false;
    word.cause = part->cause;
    word.reason = part->reason;
    word.whole = UnknownParts::without(word.text).empty();
    word.text = context_.unknown.shown(word.text);
  }
  return word;
}

ShellRunner::Words ShellRunner::words_of_text(const ShellWord& word, std::string& doubt) {
  std::vector<ShellCommand> outer = std::exchange(script_.commands, {});
  const bool in_text = std::exchange(in_text_, true);
  ShellState inner;
  inner.taint_all("which another shell expands");
  inner.taint(kShellArguments, "which another shell expands");
  try {
    text(word.text, word.line, inner);
  } catch (const InputError&) {
    script_.commands.clear();  // it is no text of a shell
  }
  in_text_ = in_text;
  std::vector<ShellCommand> found = std::exchange(script_.commands, std::move(outer));
  std::erase_if(found, [](const ShellCommand& each) { return std::ranges::none_of(each.words, is_option); });
  if (found.empty()) return {word};
  if (found.size() > 1 && doubt.empty()) doubt = "is one of several in a text";
  if (doubt.empty()) doubt = found.front().doubt;
  for (ShellWord& each : found.front().words) each.line = word.line;
  return std::move(found.front().words);
}

void ShellRunner::record(Words words, int line, const ShellState& state) {
  ShellCommand command{{}, line, doubt_of(state), {}, environment_};
  std::size_t texts = 0;
  bool program = in_text_;  // its arguments are no texts of a shell
  for (ShellWord& word : words) {
    const bool several = word.text.find(" --") != std::string::npos ||
                         (word.text.starts_with("--") && word.text.find(' ') != std::string::npos);
    if (word.text.ends_with(".py")) program = true;
    if (several && !program && ++texts <= kMostTextWords) {
      for (ShellWord& each : words_of_text(word, command.doubt))
        command.words.push_back(shown(std::move(each)));
    } else {
      command.words.push_back(in_text_ ? std::move(word) : shown(std::move(word)));
    }
  }
  const auto same = [](const ShellWord& a, const ShellWord& b) {
    return a.text == b.text && a.known == b.known;
  };
  for (const ShellCommand& each : script_.commands)
    if (each.line == line && std::ranges::equal(each.words, command.words, same)) return;
  script_.commands.push_back(std::move(command));
}

void ShellRunner::redirect(const ShellNode& node, ShellState& state) {
  if (node.redirections.empty()) return;
  ShellState after = state;  // of a command of bash; a program's are expanded in its own process
  count(state);
  ShellExpansion expansion(after, context_);
  for (const ShellToken& token : node.redirections) {
    if (token.kind == ShellToken::Kind::word) {
      expansion.words(token);
    } else if (token.descriptor.starts_with('{')) {
      after.taint(token.descriptor.substr(1, token.descriptor.size() - 2),
                  taint(token.line, "a file's number is not evaluated"));
    }
    if (!token.document.empty()) expansion.quoted(token.document, token.line);
  }
  if (!same_values(state, after))
    state = joined(std::move(state), std::move(after), node.line, "a redirection is not evaluated");
}

Truth ShellRunner::command(const ShellNode& node, ShellState& state) {
  ShellExpansion expansion(state, context_);
  std::size_t first = 0;
  while (first < node.words.size() && ShellExpansion::assigns(node.words[first])) ++first;
  const bool declares = first < node.words.size() && declaring().contains(node.words[first].text);
  const bool tests =
      first < node.words.size() && (node.words[first].text == "[" || node.words[first].text == "test");
  if (tests) expansion.for_condition();
  Words words;
  for (std::size_t i = first; i < node.words.size(); ++i) {
    const ShellToken& token = node.words[i];
    if (declares && i > first && ShellExpansion::assigns(token)) continue;
    for (ShellWord& word : expansion.words(token)) words.push_back(std::move(word));
  }
  redirect(node, state);
  const auto substitutes = [](const ShellToken& token) {
    return token.text.find("$(") != std::string::npos || token.text.find('`') != std::string::npos;
  };
  if (words.empty()) {
    for (std::size_t i = 0; i < first; ++i) expansion.assign(node.words[i]);
    return std::ranges::any_of(node.words, substitutes) ? Truth::unknown : Truth::yes;
  }
  std::map<std::string, std::string> own;
  // Assignments before a program are in its environment only; those before `eval` are seen by what it runs.
  if (first > 0) {
    ShellState environment = state;
    count(state);
    for (std::size_t i = 0; i < first; ++i) {
      ShellExpansion(environment, context_).assign(node.words[i]);
      const std::string name = node.words[i].text.substr(0, name_length(node.words[i].text));
      if (const std::string* const value = environment.known_value(name)) own[name] = *value;
    }
  }
  const auto absent = [&](const ShellWord& word) { return is_absent(word, context_.unknown); };
  Words run(std::ranges::find_if_not(words, absent), words.end());
  if (first > 0 && !run.empty()) {
    const std::string& name = run.front().text;
    const bool shell = name == "eval" || name == "source" || name == "." || state.functions.contains(name);
    for (std::size_t i = 0; shell && i < first; ++i)
      state.taint(
          node.words[i].text.substr(0, name_length(node.words[i].text)),
          taint(node.line, fmt::format("its assignment before `{}` is not evaluated", printable(name))));
  }
  environment_ = std::move(own);
  if (run.size() < words.size()) record(words, node.line, state);
  if (run.empty()) return Truth::unknown;
  const std::vector<ShellToken> tokens(
      node.words.begin() + static_cast<std::ptrdiff_t>(first + (declares ? 1 : 0)), node.words.end());
  const std::size_t commands = script_.commands.size();
  const Truth truth = simple(declares ? tokens : std::vector<ShellToken>{}, run, node.line, state);
  if (run.size() < words.size() && script_.commands.size() == commands + 1) script_.commands.pop_back();
  return truth;
}

Truth ShellRunner::simple(const std::vector<ShellToken>& tokens, Words words, int line, ShellState& state) {
  const std::string name = words.front().text;
  if (!UnknownParts::known(name)) {
    if (UnknownParts::without(name).empty())
      state.taint_all(taint(line, fmt::format("`{}` is not evaluated", context_.unknown.shown(name))));
    record(std::move(words), line, state);
    status_of_program_ = true;
    return Truth::unknown;
  }
  if (state.functions.contains(name)) return call(name, words, line, state);
  if (declaring().contains(name)) return declare(tokens, words, line, state);
  const std::string second = words.size() > 1 ? words[1].text : "";
  if (name == "command" || name == "builtin" || name == "exec") {
    std::size_t from = 1;
    while (from < words.size() && words[from].text.starts_with("-") && words[from].text != "--") ++from;
    const bool asks = name == "command" && (second == "-v" || second == "-V");
    if (asks || from >= words.size()) return Truth::unknown;
    if (words[from].text == "--") ++from;
    if (name == "exec" && second == "-a") ++from;
    Words rest(words.begin() + static_cast<std::ptrdiff_t>(std::min(from, words.size())), words.end());
    if (rest.empty()) return Truth::unknown;
    if (name != "exec" && state.functions.contains(rest.front().text)) {
      // Not the function.
      ShellState::Bodies bodies = state.functions[rest.front().text];
      const std::string program = rest.front().text;
      state.functions.erase(program);
      const Truth truth = simple({}, std::move(rest), line, state);
      state.functions[program] = std::move(bodies);
      return truth;
    }
    if (name == "exec") {
      record(std::move(rest), line, state);
      state.halt = Halt::exits;
      return Truth::unknown;
    }
    return simple({}, std::move(rest), line, state);
  }
  if (name == "[" || name == "test") {
    words.erase(words.begin());
    if (name == "[") {
      if (words.empty() || words.back().text != "]") return Truth::unknown;
      words.pop_back();
    }
    for (const ShellWord& word : words)
      if (word.text.find("++") != std::string::npos || word.text.find('[') != std::string::npos)
        ShellExpansion(state, context_)
            .taint_names(UnknownParts::without(word.text), taint(line, "`[ ... ]` is not evaluated"));
    return bracket_test(words);
  }
  if (name == "false") return Truth::no;
  if (name == "exit" || name == "return" || name == "break" || name == "continue") {
    record(words, line, state);
    if (name == "exit") {
      state.halt = Halt::exits;
    } else if (name == "return") {
      if (!returned_.empty()) state.halt = Halt::returns;
    } else if (words.size() > 1) {
      state.doubt = fmt::format("`{} {}` in line {}, which is not evaluated", name,
                                printable(context_.unknown.shown(second)), line);
    } else if (!left_loops_.empty()) {
      state.halt = name == "break" ? Halt::breaks : Halt::continues;
    }
    return Truth::unknown;
  }
  if (name == "source" || name == ".") return source(words, line, state);
  if (name == "eval") return evaluate(words, line, state);
  if (name == "set") return set_options(words, line, state);
  if (name == "trap") {
    trap(words, line, state);
    return Truth::yes;
  }
  if (name == "shift") {
    const auto arguments = state.variables.find(kShellArguments);
    if (arguments == state.variables.end()) return Truth::unknown;
    if (arguments->second.taint.empty()) {
      const std::size_t count = words.size() == 1 ? 1
                                : second.size() == 1 && second[0] >= '0' && second[0] <= '9'
                                    ? static_cast<std::size_t>(second[0] - '0')
                                    : std::string::npos;
      auto& items = arguments->second.items;
      if (count == std::string::npos)
        state.taint(kShellArguments, taint(line, "`shift` is not evaluated"));
      else if (count <= items.size())
        items.erase(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(count));
      return count <= items.size() + count ? Truth::unknown : Truth::no;
    }
    return Truth::unknown;
  }
  if (name == "unset") {
    const bool functions = second == "-f";
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string& text = words[i].text;
      if (text.starts_with("-")) continue;
      if (!UnknownParts::known(text)) {
        state.taint_all(taint(line, "`unset` is not evaluated"));
      } else if (functions || (state.functions.contains(text) && state.find(text) == nullptr)) {
        state.functions[text].push_back(nullptr);
      } else if (is_shell_name(text)) {
        state.unset(text);
      } else {
        ShellExpansion(state, context_).taint_names(text, taint(line, "`unset` is not evaluated"));
      }
    }
    return Truth::yes;
  }
  if (name == "shopt" || name == "enable") {
    const bool harmless_option = second != "-s" && second != "-u" && name == "shopt";
    const bool known = words.size() > 2 && (words[2].text == "inherit_errexit" ||
                                            words[2].text == "huponexit" || words[2].text == "checkwinsize");
    if (!harmless_option && !known)
      state.doubt = fmt::format("`{} {}` in line {}, which changes what commands mean", name,
                                printable(words.size() > 2 ? words[2].text : second), line);
    return Truth::unknown;
  }
  if (name == "let") {
    Truth truth = Truth::unknown;
    for (std::size_t i = 1; i < words.size(); ++i) {
      ShellExpansion expansion(state, context_);
      const std::string written = context_.unknown.shown(words[i].text);
      const std::string shown_text = "let " + written;
      // X=2*4 stands for names of files, of which there is none.
      const bool product = UnknownParts::without(words[i].text).empty() &&
                           written.find('*') != std::string::npos &&
                           written.find_first_of("$`") == std::string::npos;
      if (product) words[i].text = written;
      if (!UnknownParts::known(words[i].text)) {
        expansion.taint_names(words[i].text, taint(line, fmt::format("`{}` is not evaluated", shown_text)));
      } else if (const auto value = expansion.arithmetic(words[i].text, line, shown_text)) {
        truth = truth_of(*value != 0);
      } else {
        truth = Truth::unknown;
      }
    }
    return truth;
  }
  if (name == "read" || name == "mapfile" || name == "readarray" || name == "getopts" || name == "wait" ||
      (name == "printf" && second.starts_with("-v"))) {
    taint_targets(words, line, state);
    if (name == "getopts" && state.find(kShellArguments) == nullptr) return Truth::no;
    return Truth::unknown;
  }
  if (name == "cd" || name == "pushd" || name == "popd") {
    for (const char* const folder : {"PWD", "OLDPWD"})
      state.taint(folder, taint(line, fmt::format("`{}` is not evaluated", name)));
    if (name != "cd" || (UnknownParts::known(second) && !second.empty())) moved_ = true;
  }
  const bool program = name.find('/') != std::string::npos || plain().contains(name);
  if (!state.unknown_commands.empty() && !program && !harmless().contains(name) && name != "printf")
    state.taint_all(
        taint(line, fmt::format("`{}` may be a function: {}", printable(name), state.unknown_commands)));
  record(std::move(words), line, state);
  if (harmless().contains(name) || name == "printf") return Truth::yes;
  status_of_program_ = true;
  return Truth::unknown;
}

Truth ShellRunner::call(const std::string& name, const Words& words, int line, ShellState& state) {
  const ShellState::Bodies bodies = state.functions[name];
  const auto run_body = [&](const ShellNodePtr& body, ShellState& at) {
    if (!body) {
      at.functions.erase(name);
      const Truth truth = simple({}, words, line, at);
      return truth;
    }
    const auto arguments = at.variables.find(kShellArguments);
    const bool had = arguments != at.variables.end();
    const ShellVariable before = had ? arguments->second : ShellVariable{};
    ShellVariable passed;
    passed.array = true;
    passed.items.assign(words.begin() + 1, words.end());
    for (const ShellWord& word : words) {
      const UnknownPart* const part = word.splits ? context_.unknown.of(word.text) : nullptr;
      if (part != nullptr && (part->cause != UnknownCause::unset || passed.taint.empty()))
        passed.taint = fmt::format("which is an argument of `{}` in line {}: \"{}\", {}", name, line,
                                   part->text, part->reason);
    }
    at.variables[kShellArguments] = std::move(passed);
    at.locals.emplace_back();
    returned_.emplace_back();
    std::vector<std::vector<ShellState>> loops = std::exchange(left_loops_, {});
    const std::string why = fmt::format("`{}` may return early (line {})", name, line);
    Truth truth = run(*body, at);
    if (at.halt == Halt::returns) truth = Truth::unknown;
    std::vector<ShellState> left = std::move(returned_.back());
    returned_.pop_back();
    left_loops_ = std::move(loops);
    if (!left.empty()) truth = Truth::unknown;
    rejoin(left, at, Halt::returns, line, why);
    for (auto& [variable, value] : at.locals.back()) at.variables[variable] = std::move(value);
    at.locals.pop_back();
    at.variables.erase(kShellArguments);
    if (had) at.variables[kShellArguments] = before;
    return truth;
  };
  if (bodies.size() == 1) return run_body(bodies.front(), state);
  const std::string why = fmt::format("several functions may be `{}` in line {}", name, line);
  const std::string doubt = doubt_;
  if (doubt_.empty()) doubt_ = "may not run: " + why;
  std::vector<ShellState> after;
  for (const ShellNodePtr& body : bodies) {
    ShellState copy = state;
    count(state);
    run_body(body, copy);
    copy.functions[name] = bodies;
    after.push_back(std::move(copy));
  }
  doubt_ = doubt;
  state = std::move(after.front());
  for (std::size_t i = 1; i < after.size(); ++i)
    state = joined(std::move(state), std::move(after[i]), line, why);
  return Truth::unknown;
}

}  // namespace plumbline
