// Commands of bash itself: those that set variables, run other code or change what commands mean.
#include <fmt/format.h>

#include <utility>

#include "core/base/error.hpp"
#include "core/base/one_line.hpp"
#include "core/launch_files/shell/shell_runner.hpp"

namespace plumbline {
namespace {

constexpr int kMostSourced = 20;

}  // namespace

void ShellRunner::taint_targets(const Words& words, int line, ShellState& state) {
  const std::string& name = words.front().text;
  const std::string reason = taint(line, fmt::format("`{}` is not evaluated", name));
  bool named = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (name == "printf" && i > 2) break;
    std::string_view text = words[i].text;
    if (!UnknownParts::known(text)) {
      const bool option = i > 1 && words[i - 1].text.starts_with("-") && name != "printf";
      if (!option) state.taint_all(reason);
      continue;
    }
    if (text.starts_with("-")) {  // -a NAME, -aNAME, -raNAME
      for (std::size_t from = 2; from < text.size(); ++from)
        if (is_shell_name(text.substr(from))) state.taint(std::string(text.substr(from)), reason);
      continue;
    }
    const std::size_t length = name_length(text);
    if (length > 0 && (length == text.size() || text[length] == '[')) {
      state.taint(std::string(text.substr(0, length)), reason);
      if (length < text.size()) ShellExpansion(state, context_).taint_names(text, reason);
      named = true;
    }
  }
  if (name == "read" || !named) state.taint(name == "read" ? "REPLY" : "MAPFILE", reason);
  if (name == "getopts")
    for (const char* const own : {"OPTARG", "OPTIND", "OPTERR"}) state.taint(own, reason);
}

Truth ShellRunner::declare(const std::vector<ShellToken>& tokens, const Words& words, int line,
                           ShellState& state) {
  const std::string& name = words.front().text;
  const bool local = name != "export" && name != "readonly" && !state.locals.empty();
  bool attributes = false;
  bool readonly = name == "readonly";
  bool global = false;
  bool functions = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (!text.starts_with("-") && !text.starts_with("+")) continue;
    if (text.find_first_not_of("-+xraAgfFpiIlnutc") != std::string::npos) continue;
    if (text.find('n') != std::string::npos && name != "export")
      state.doubt = fmt::format("`{} {}` in line {}, which is not evaluated", name, text, line);
    attributes = attributes || text.find_first_of("Aiuclt") != std::string::npos;
    readonly = readonly || (text.starts_with("-") && text.find('r') != std::string::npos);
    global = global || text.find('g') != std::string::npos;
    functions = functions || text.find_first_of("fFp") != std::string::npos;
  }
  if (functions) return Truth::yes;
  const auto prepare = [&](const std::string& variable) {
    if (local && !global && !state.locals.back().contains(variable)) {
      const auto before = state.variables.find(variable);
      ShellVariable absent;
      absent.is_set = false;
      if (before == state.variables.end() && !state.all_tainted.empty()) absent = *state.find(variable);
      state.locals.back()[variable] = before == state.variables.end() ? absent : before->second;
      state.variables[variable] = absent;
      state.variables[variable].taint.clear();
      state.variables[variable].is_set = false;
    }
    if (attributes) {
      state.variables[variable].attributes = true;
      state.taint(variable, taint(line, "it has attributes of `declare`"));
    }
  };
  ShellExpansion expansion(state, context_);
  for (const ShellToken& token : tokens) {
    if (!ShellExpansion::assigns(token)) continue;
    const std::string variable = token.text.substr(0, name_length(token.text));
    if (local && !global && !state.locals.back().contains(variable)) {
      // The value is expanded before the variable is local.
      ShellState before = state;
      ShellExpansion(before, context_).assign(token);
      ShellVariable value = before.variables[variable];
      const bool append = token.text.find("+=") == variable.size();
      prepare(variable);
      if (!append) {
        value.attributes = state.variables[variable].attributes;
        if (value.attributes) value.taint = taint(line, "it has attributes of `declare`");
        state.variables[variable] = std::move(value);
      } else {
        expansion.assign(token);
      }
    } else {
      prepare(variable);
      expansion.assign(token);
    }
    if (readonly) state.variables[variable].readonly = true;
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    if (text.starts_with("-") || text.starts_with("+")) continue;
    const std::size_t length = name_length(text);
    if (length == 0) {
      if (!UnknownParts::known(text))
        state.taint_all(taint(line, fmt::format("`{}` is not evaluated", name)));
      continue;
    }
    const std::string variable = text.substr(0, length);
    prepare(variable);
    if (length == text.size()) {
      if (readonly) {
        if (state.find(variable) == nullptr) state.unset(variable);
        state.variables[variable].readonly = true;
      }
    } else if (text[length] == '=') {
      ShellWord value = words[i];
      value.text = text.substr(length + 1);
      value.line = line;
      expansion.set(variable, std::move(value));
      if (readonly) state.variables[variable].readonly = true;
    } else {
      state.taint(variable, taint(line, fmt::format("`{}` is not evaluated", name)));
    }
  }
  return Truth::yes;
}

Truth ShellRunner::source(const Words& words, int line, ShellState& state) {
  const auto unread = [&](const std::string& what) {
    note(line, fmt::format("`{}` is not read", printable(what)));
    const std::string reason = taint(line, fmt::format("`{}` is not read", printable(what)));
    state.taint_all(reason);
    state.taint(kShellArguments, reason);
    state.unknown_commands = fmt::format("`{}` is not read", printable(what));
    record(words, line, state);
    return Truth::unknown;
  };
  if (words.size() < 2) return unread(words.front().text);
  const std::string written = "source " + context_.unknown.shown(words[1].text);
  std::string file = words[1].text;
  const bool known = UnknownParts::known(file);
  if (!known) {  // "${SCRIPT_DIR}/models/a.sh" is looked for as models/a.sh
    const std::size_t slash = file.find('/', file.rfind(UnknownParts::kEnd));
    if (slash == std::string::npos) return unread(written);
    const UnknownPart* const part = context_.unknown.of(file);
    if (part->cause == UnknownCause::left_out) return unread(written);
    file.erase(0, slash + 1);
  } else if (moved_ && !file.starts_with("/")) {
    return unread(written);
  }
  if (words.size() > 2 || !other_ || ++sourced_ > kMostSourced) return unread(written);
  const std::optional<std::string> text = other_(file);
  if (!text || text->find_first_of("\x01\x02") != std::string::npos) return unread(written);
  if (!known) note(line, fmt::format("`{}` is read as {}", printable(written), printable(file)));
  const ShellNodePtr tree = parse_shell(split_shell(*text, file, line).tokens, file);
  returned_.emplace_back();
  std::vector<std::vector<ShellState>> loops = std::exchange(left_loops_, {});
  Truth truth = run(*tree, state);
  std::vector<ShellState> left = std::move(returned_.back());
  returned_.pop_back();
  left_loops_ = std::move(loops);
  if (!left.empty() || state.halt == Halt::returns) truth = Truth::unknown;
  rejoin(left, state, Halt::returns, line, fmt::format("`{}` may return early", printable(written)));
  return truth;
}

Truth ShellRunner::evaluate(const Words& words, int line, ShellState& state) {
  std::string joined_words;
  for (std::size_t i = 1; i < words.size(); ++i) joined_words += (i > 1 ? " " : "") + words[i].text;
  const UnknownPart* const part = context_.unknown.of(joined_words);
  const std::string reason =
      part == nullptr ? "" : taint(line, fmt::format("`eval` runs \"{}\", {}", part->text, part->reason));
  Truth truth = Truth::unknown;
  try {
    truth = text(joined_words, line, state);
  } catch (const InputError& error) {
    state.doubt = fmt::format("`eval` in line {}, which is not evaluated: {}", line, error.what());
  }
  if (part != nullptr && part->cause != UnknownCause::unset) state.taint_all(reason);
  return part == nullptr ? truth : Truth::unknown;
}

Truth ShellRunner::set_options(const Words& words, int line, ShellState& state) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& text = words[i].text;
    const bool on = text.starts_with("-");
    if (text == "--" || text == "-" || (!on && !text.starts_with("+"))) {
      const std::size_t from = text == "--" || text == "-" ? i + 1 : i;
      if (text == "-" && from == words.size()) break;
      ShellVariable arguments;
      arguments.array = true;
      arguments.items.assign(words.begin() + static_cast<std::ptrdiff_t>(from), words.end());
      for (const ShellWord& word : arguments.items)
        if (word.splits) arguments.taint = taint(line, "`set` is not evaluated");
      if (!UnknownParts::known(text)) arguments.taint = taint(line, "`set` is not evaluated");
      state.variables[kShellArguments] = std::move(arguments);
      break;
    }
    const bool named = text.find('o') != std::string::npos;
    const std::string option = named && i + 1 < words.size() ? words[i + 1].text : "";
    if (text.find('e') != std::string::npos || option == "errexit") state.stops_at_failure = on;
    if (text.find_first_of("nktP") != std::string::npos || option == "posix" || option == "noexec" ||
        option == "keyword" || option == "onecmd" || !UnknownParts::known(text + option))
      state.doubt = fmt::format("`set {}` in line {}, which changes what commands mean",
                                printable(fmt::format("{} {}", text, option)), line);
    if (named) ++i;
  }
  return Truth::yes;
}

void ShellRunner::trap(const Words& words, int line, ShellState& state) {
  if (words.size() < 3) return;
  const std::string& handler = words[1].text;
  if (handler.starts_with("-") || handler.empty()) return;
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::string& signal = words[i].text;
    if (!UnknownParts::known(signal + handler)) {
      state.doubt = fmt::format("`trap` in line {}, which is not evaluated", line);
    } else if (signal == "EXIT" || signal == "0") {
      if (!doubt_.empty() || !at_exit_.empty())
        state.doubt = fmt::format("`trap` in line {}, which is not evaluated", line);
      at_exit_ = handler;
    } else if (signal == "ERR" || signal == "DEBUG" || signal == "RETURN" || signal.ends_with("CHLD") ||
               signal.ends_with("SIGCHLD")) {
      ShellState after = state;
      count(state);
      try {
        const std::string doubt = doubt_;
        if (doubt_.empty()) doubt_ = fmt::format("runs in a trap: line {}", line);
        text(handler, line, after);
        doubt_ = doubt;
      } catch (const InputError&) {
        after.doubt = "it";
      }
      after.halt = Halt::none;
      if (!same_values(after, state))
        state.doubt = fmt::format("`trap` in line {}, which is not evaluated", line);
    }
  }
}

}  // namespace plumbline
