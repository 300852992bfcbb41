#include "core/launch_files/shell/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/launch_files/shell/shell_runner.hpp"

namespace plumbline {
namespace {

constexpr int kDeepestRun = 200;
constexpr long kMostCommands = 50'000;
constexpr std::size_t kMostCopied = std::size_t{1} << 29;  // bytes of states
constexpr std::size_t kMostArguments = 99;                 // of a script

/// Variables with lower-case letters that lines of the script assign: a script's own by POSIX's convention,
/// which leaves those to applications (XBD 8.1), so that no environment gives them.
std::set<std::string> own_names(std::string_view text) {
  std::set<std::string> names;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::string_view rest = line.substr(std::min(line.size(), line.find_first_not_of(" \t")));
    const std::size_t length = name_length(rest);
    const std::string_view name = rest.substr(0, length);
    const bool lower = std::ranges::any_of(name, [](char c) { return c >= 'a' && c <= 'z'; });
    if (length < rest.size() && rest[length] == '=' && lower) names.emplace(name);
  }
  return names;
}

}  // namespace

void ShellRunner::note(int line, const std::string& what) {
  std::string text = fmt::format("{}:{}: {}", context_.name, line, what);
  if (std::ranges::find(script_.notes, text) == script_.notes.end()) script_.notes.push_back(std::move(text));
}

void ShellRunner::count(const ShellState& state) {
  for (const auto& [name, variable] : state.variables) {
    copied_ += 200;
    for (const ShellWord& item : variable.items) copied_ += item.text.size() + 100;
  }
  if (copied_ > kMostCopied)
    throw InputError(
        fmt::format("{}: found too many ways through the script, expected a launch script", context_.name));
}

ShellState ShellRunner::joined(ShellState a, ShellState b, int line, const std::string& why) {
  if (a.halt == b.halt) {
    count(a);
    return merged(std::move(a), b, context_.name, line, why);
  }
  if (a.halt != Halt::none && b.halt == Halt::none) std::swap(a, b);
  switch (b.halt) {
    case Halt::exits:
      note(line, fmt::format("the script may end here, since {}", why));
      break;
    case Halt::returns:
      if (!returned_.empty()) returned_.back().push_back(std::move(b));
      break;
    default:
      if (!left_loops_.empty()) left_loops_.back().push_back(std::move(b));
  }
  return a;
}

void ShellRunner::rejoin(std::vector<ShellState>& left, ShellState& state, Halt halt, int line,
                         const std::string& why) {
  std::vector<ShellState> others;
  for (ShellState& each : left) {
    if (each.halt != halt) {
      others.push_back(std::move(each));
      continue;
    }
    each.halt = Halt::none;
    if (state.halt == halt) state.halt = Halt::none;
    state = joined(std::move(state), std::move(each), line, why);
  }
  left = std::move(others);
  if (state.halt == halt) state.halt = Halt::none;
}

Truth ShellRunner::run(const ShellNode& node, ShellState& state) {
  if (state.halt != Halt::none) return Truth::unknown;
  if (++depth_ > kDeepestRun)
    throw InputError(fmt::format("{}:{}: calls nest more than {} deep, expected a launch script",
                                 context_.name, node.line, kDeepestRun));
  if (++commands_run_ > kMostCommands)
    throw InputError(fmt::format("{}: runs more than {} commands, expected a launch script", context_.name,
                                 kMostCommands));
  Truth truth = Truth::yes;
  using Kind = ShellNode::Kind;
  if (node.kind != Kind::command) redirect(node, state);
  status_of_program_ = false;
  switch (node.kind) {
    case Kind::list:
      for (const ShellNodePtr& part : node.parts) {
        if (state.halt != Halt::none) break;
        truth = run(*part, state);
        const bool checked = part->kind == Kind::command || part->kind == Kind::test ||
                             part->kind == Kind::arithmetic || part->kind == Kind::subshell;
        if (checked && truth == Truth::no && state.stops_at_failure && !in_condition_)
          state.halt = Halt::exits;
      }
      break;
    case Kind::chain:
      if (node.background) {
        ShellState copy = state;
        count(state);
        chain(node, copy);
      } else {
        truth = chain(node, state);
      }
      break;
    case Kind::pipeline:
      truth = pipeline(node, state);
      break;
    case Kind::command:
      truth = command(node, state);
      break;
    case Kind::test:
      truth = test(node, state);
      break;
    case Kind::arithmetic:
      truth = arithmetic(node.words[0].text, fmt::format("(({}))", node.words[0].text), node.line, state);
      break;
    case Kind::branch:
      truth = branch(node, state);
      break;
    case Kind::loop:
    case Kind::counted:
      truth = loop(node, state);
      break;
    case Kind::each:
      truth = each(node, state);
      break;
    case Kind::choice:
      truth = choice(node, state);
      break;
    case Kind::group:
      truth = run(*node.parts[0], state);
      break;
    case Kind::subshell:
      truth = subshell(node, state);
      break;
    case Kind::function:
      state.functions[node.text] = {node.parts[0]};
      break;
  }
  if (!context_.substitutions.empty()) substituted(state);
  --depth_;
  return truth;
}

void ShellRunner::substituted(const ShellState& state) {
  const bool program = status_of_program_;
  for (const ShellSubstitution& each : std::exchange(context_.substitutions, {})) {
    ShellState copy = state;
    count(state);
    copy.halt = Halt::none;
    try {
      text(each.text, each.line, copy);
    } catch (const InputError&) {  // no command of a script
    }
  }
  status_of_program_ = program;
}

Truth ShellRunner::chain(const ShellNode& node, ShellState& state) {
  Truth truth = Truth::yes;
  for (std::size_t i = 0; i < node.parts.size(); ++i) {
    if (state.halt != Halt::none) return Truth::unknown;
    const ShellNode& part = *node.parts[i];
    const bool last = i + 1 == node.parts.size();
    const bool condition = std::exchange(in_condition_, in_condition_ || !last);
    if (i == 0) {
      truth = run(part, state);
    } else {
      const bool and_joint = node.joints[i - 1] == "&&";
      if (truth == (and_joint ? Truth::yes : Truth::no)) {
        truth = run(part, state);
        if (last && truth == Truth::no && state.stops_at_failure && !condition) state.halt = Halt::exits;
      } else if (truth == Truth::unknown) {
        const bool presumed = and_joint && status_of_program_;
        const std::string why =
            fmt::format("the command before `{}` {}", node.joints[i - 1], and_joint ? "succeeds" : "fails");
        const std::string before = doubt_;
        Truth then = Truth::unknown;
        ShellState other = state;
        count(state);
        if (!presumed && doubt_.empty())
          doubt_ = fmt::format("may not run: line {} is reached only if {}", part.line, why);
        const std::size_t commands = script_.commands.size();
        then = run(part, other);
        for (std::size_t each = commands; presumed && each < script_.commands.size(); ++each)
          script_.commands[each].presumed =
              fmt::format("{}:{}: runs if the command before `&&` succeeds", context_.name, part.line);
        const bool program = status_of_program_;
        doubt_ = before;
        state =
            joined(std::move(state), std::move(other), part.line, fmt::format("it is not known if {}", why));
        truth = and_joint ? all_of(truth, then) : any_of(truth, then);
        status_of_program_ = presumed && (then != Truth::unknown || program);
      }
    }
    in_condition_ = condition;
  }
  return truth;
}

Truth ShellRunner::pipeline(const ShellNode& node, ShellState& state) {
  const bool condition = std::exchange(in_condition_, in_condition_ || node.negated);
  Truth truth = Truth::unknown;
  if (node.parts.size() == 1) {
    truth = run(*node.parts[0], state);
  } else {
    for (const ShellNodePtr& part : node.parts) {
      ShellState copy = state;
      count(state);
      truth = run(*part, copy);
      if (copy.halt != Halt::none) truth = Truth::unknown;
    }
    truth = truth == Truth::no ? Truth::no : Truth::unknown;  // another part may fail with pipefail
  }
  in_condition_ = condition;
  return node.negated ? not_of(truth) : truth;
}

Truth ShellRunner::subshell(const ShellNode& node, ShellState state) {
  count(state);
  std::vector<std::vector<ShellState>> loops;
  std::swap(loops, left_loops_);
  const Truth truth = run(*node.parts[0], state);
  std::swap(loops, left_loops_);
  return state.halt == Halt::none ? truth : Truth::unknown;
}

Truth ShellRunner::text(std::string_view text, int line, ShellState& state) {
  const ShellNodePtr tree = parse_shell(split_shell(text, context_.name, line).tokens, context_.name);
  return run(*tree, state);
}

ShellScript ShellRunner::script(std::string_view text, ShellState state) {
  if (text.find_first_of("\x01\x02") != std::string_view::npos)
    throw InputError(fmt::format("{}: found a control character, expected a shell script", context_.name));
  if (const auto given = state.variables.find(kShellArguments); given != state.variables.end()) {
    std::size_t number = 0;
    for (ShellWord& item : given->second.items)
      if (++number; !item.known)
        item = {context_.unknown.mark(
            {fmt::format("${}", number), UnknownCause::unset, "which the file does not set"})};
  }
  ShellTokens tokens = split_shell(text, context_.name);
  const ShellNodePtr tree = parse_shell(std::move(tokens.tokens), context_.name);
  context_.own_names = own_names(text);
  run(*tree, state);
  if (!at_exit_.empty()) {
    state.halt = Halt::none;
    this->text(at_exit_, 1, state);
  }
  for (const ShellToken& option : tokens.job_options)
    script_.job_options.push_back({option.text, option.line, option.text.find('$') == std::string::npos});
  std::vector<std::pair<int, std::string>> ordered;
  for (const auto& [name, variable] : state.variables)
    if (!name.empty() && name != kShellArguments && variable.is_set && !variable.items.empty())
      ordered.emplace_back(variable.order, name);
  std::ranges::sort(ordered);
  for (const auto& [order, name] : ordered) {
    const ShellVariable& variable = state.variables[name];
    ShellCommand command{{}, variable.items.front().line, doubt_of(state)};
    for (const ShellWord& item : variable.items) {
      const bool several = item.text.find("--") != std::string::npos;
      for (ShellWord& word : several ? words_of_text(item, command.doubt) : Words{item})
        command.words.push_back(shown(std::move(word)));
    }
    if (!variable.taint.empty() && command.doubt.empty())
      command.doubt = fmt::format("holds ${}, {}", name, variable.taint);
    script_.variables.push_back(std::move(command));
  }
  script_.defaults = std::move(context_.defaults);
  return std::move(script_);
}

ShellScript read_shell_script(std::string_view text, const std::string& name, const OtherFile& other,
                              const std::map<std::string, std::string>& environment,
                              const std::set<std::string>& exported) {
  ShellState state;
  for (const auto& [variable, value] : environment) {
    std::size_t argument = 0;  // --set 2=8B gives $2
    const char* const stop = variable.data() + variable.size();
    const auto [end, error] = std::from_chars(variable.data(), stop, argument);
    if (error != std::errc() || end != stop) {
      state.variables[variable].items = {{value}};
      state.variables[variable].given = !exported.contains(variable);
    } else if (argument >= 1 && argument <= kMostArguments) {
      std::vector<ShellWord>& items = state.variables[kShellArguments].items;
      if (items.size() < argument) items.resize(argument, {"", 1, false});
      items[argument - 1] = {value};
    }
  }
  return ShellRunner(name, other).script(text, std::move(state));
}

}  // namespace plumbline
