#include "core/launch_files/shell/shell_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/error.hpp"
#include "core/launch_files/shell/shell_runner.hpp"

namespace plumbline {
namespace {

constexpr int kDeepestRun = 200;
constexpr long kMostCommands = 50'000;
constexpr std::size_t kMostCopied = std::size_t{1} << 29;  // bytes of states
constexpr std::size_t kMostArguments = 99;                 // of a script
constexpr int kMostRounds = 1000;                          // of a loop

/// Text of the parts that may stand for others in messages: one line, not long.
std::string brief(const ShellNode& node) {
  std::string text;
  for (const ShellToken& word : node.words) text += (text.empty() ? "" : " ") + word.text;
  return text;
}

bool reads_arguments(const ShellNode& node) {
  const auto has = [](const ShellToken& token) {
    return token.text.find("$#") != std::string::npos || token.text.find("${#}") != std::string::npos ||
           token.text == "getopts";
  };
  return std::ranges::any_of(node.words, has) ||
         std::ranges::any_of(node.parts, [](const ShellNodePtr& part) { return reads_arguments(*part); });
}

/// Parts of "i=0; i<4; i++".
std::vector<std::string> parted(std::string_view header) {
  std::vector<std::string> parts{""};
  for (const char c : header) {
    if (c == ';') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
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

void ShellRunner::repeatedly(ShellState& state, int line, const std::string& why, const Code& code) {
  const std::string before = doubt_;
  if (doubt_.empty()) doubt_ = "may run any number of times: " + why;
  const std::size_t commands = script_.commands.size();
  left_loops_.emplace_back();
  for (int round = 0;; ++round) {
    script_.commands.resize(commands);
    ShellState after = state;
    code(after);
    std::vector<ShellState>& left = left_loops_.back();
    rejoin(left, after, Halt::continues, line, why);
    rejoin(left, after, Halt::breaks, line, why);
    after = joined(state, std::move(after), line, why);
    const bool settled = same_values(after, state);
    state = std::move(after);
    if (settled) break;
    if (round > 20) {
      state.taint_all(taint(line, why));
      state.doubt = fmt::format("line {}, which is not evaluated", line);
    }
  }
  left_loops_.pop_back();
  doubt_ = before;
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

Truth ShellRunner::branch(const ShellNode& node, ShellState& state) {
  Truth truth = Truth::yes;
  std::function<void(std::size_t, ShellState&)> from = [&](std::size_t i, ShellState& at) {
    if (i >= node.parts.size()) return;
    if (i + 1 == node.parts.size()) {
      truth = run(*node.parts[i], at);
      return;
    }
    const bool condition = std::exchange(in_condition_, true);
    const Truth test = run(*node.parts[i], at);
    in_condition_ = condition;
    if (at.halt != Halt::none) return;
    if (test == Truth::yes) {
      truth = run(*node.parts[i + 1], at);
    } else if (test == Truth::no) {
      truth = Truth::yes;
      from(i + 2, at);
    } else {
      const int line = node.parts[i]->line;
      const std::string why =
          fmt::format("the condition of `{}` in line {} holds", i == 0 ? "if" : "elif", line);
      const std::string before = doubt_;
      if (doubt_.empty()) doubt_ = fmt::format("may not run: it is not known if {}", why);
      ShellState other = at;
      count(at);
      run(*node.parts[i + 1], other);
      from(i + 2, at);
      doubt_ = before;
      at = joined(std::move(at), std::move(other), line, fmt::format("it is not known if {}", why));
      truth = Truth::unknown;
    }
  };
  from(0, state);
  return truth;
}

Truth ShellRunner::arithmetic(const std::string& written, const std::string& shown, int line,
                              ShellState& state) {
  ShellExpansion expansion(state, context_);
  const std::string text = expansion.quoted(written, line);
  if (!UnknownParts::known(text)) {
    expansion.taint_set(UnknownParts::without(text), line, shown);
    return Truth::unknown;
  }
  const auto value = expansion.arithmetic(text, line, shown);
  return value ? truth_of(*value != 0) : Truth::unknown;
}

Truth ShellRunner::loop(const ShellNode& node, ShellState& state) {
  const bool counted = node.kind == ShellNode::Kind::counted;
  const std::string kind = counted ? "for" : node.text;
  if (!counted && state.find(kShellArguments) == nullptr && reads_arguments(*node.parts[0])) {
    note(node.line, "the loop over the script's arguments is left out: it is read as run without any");
    run(*node.parts[0], state);
    return Truth::yes;
  }
  const std::string why = fmt::format("the `{}` loop in line {} is not evaluated", kind, node.line);
  const std::vector<std::string> header = counted ? parted(node.words[0].text) : std::vector<std::string>();
  const ShellNode& body = counted ? *node.parts[0] : *node.parts[1];
  const auto part_of = [&](std::size_t part, ShellState& at) {
    return header[part].find_first_not_of(" \t\n") == std::string::npos
               ? Truth::yes
               : arithmetic(header[part], fmt::format("for (({}))", node.words[0].text), node.line, at);
  };
  if (counted && (header.size() != 3 || part_of(0, state) == Truth::unknown)) {
    ShellExpansion(state, context_)
        .taint_names(node.words[0].text,
                     taint(node.line, fmt::format("`for (({}))` is not evaluated", node.words[0].text)));
    repeatedly(state, node.line, why, [&](ShellState& at) { run(body, at); });
    return Truth::unknown;
  }
  const auto condition_of = [&](ShellState& at) {
    if (counted) return part_of(1, at);
    const bool condition = std::exchange(in_condition_, true);
    const Truth test = run(*node.parts[0], at);
    in_condition_ = condition;
    return node.text == "until" ? not_of(test) : test;
  };
  left_loops_.emplace_back();
  bool decided = false;
  for (int round = 0; round < kMostRounds; ++round) {
    const Truth test = condition_of(state);
    if (state.halt != Halt::none || test == Truth::no) {
      decided = true;
      break;
    }
    if (test == Truth::unknown) break;
    run(body, state);
    if (!left_loops_.back().empty()) break;
    if (state.halt == Halt::continues) state.halt = Halt::none;
    if (counted && state.halt == Halt::none) part_of(2, state);
    if (state.halt != Halt::none) {
      decided = true;
      break;
    }
  }
  std::vector<ShellState> left = std::move(left_loops_.back());
  left_loops_.pop_back();
  if (decided && left.empty()) {
    if (state.halt == Halt::breaks) state.halt = Halt::none;
    return Truth::yes;
  }
  rejoin(left, state, Halt::continues, node.line, why);
  rejoin(left, state, Halt::breaks, node.line, why);
  if (state.halt != Halt::none) return Truth::unknown;
  repeatedly(state, node.line, why, [&](ShellState& at) {
    if (condition_of(at) != Truth::no && at.halt == Halt::none) run(body, at);
    if (counted) part_of(2, at);
  });
  return Truth::unknown;
}

Truth ShellRunner::each(const ShellNode& node, ShellState& state) {
  const std::string& name = node.words[0].text;
  const std::string why = fmt::format("the `{}` loop in line {} is not evaluated", node.text, node.line);
  Words items;
  bool known = node.text == "for";
  if (node.has_items) {
    for (std::size_t i = 1; i < node.words.size(); ++i)
      for (ShellWord& word : ShellExpansion(state, context_).for_condition().words(node.words[i]))
        items.push_back(std::move(word));
  } else {
    items =
        ShellExpansion(state, context_).for_condition().words({ShellToken::Kind::word, "\"$@\"", node.line});
  }
  const bool arguments = items.size() == 1 && !UnknownParts::known(items[0].text) &&
                         UnknownParts::without(items[0].text).empty() &&
                         context_.unknown.of(items[0].text)->cause == UnknownCause::unset;
  if (arguments) {
    note(node.line, "the loop over the script's arguments is left out: it is read as run without any");
    return Truth::yes;
  }
  for (const ShellWord& item : items) known = known && !item.splits && UnknownParts::known(item.text);
  if (items.size() > kMostRounds) known = false;
  std::size_t done = 0;
  if (known) {
    Truth truth = Truth::yes;
    left_loops_.emplace_back();
    for (; done < items.size() && left_loops_.back().empty(); ++done) {
      ShellWord item = items[done];
      item.line = node.line;
      ShellExpansion(state, context_).set(name, std::move(item));
      truth = run(*node.parts[0], state);
      if (state.halt == Halt::continues) state.halt = Halt::none;
      if (state.halt != Halt::none) break;
    }
    std::vector<ShellState> left = std::move(left_loops_.back());
    left_loops_.pop_back();
    if (left.empty()) {
      if (state.halt == Halt::breaks) state.halt = Halt::none;
      return truth;
    }
    rejoin(left, state, Halt::continues, node.line, why);
    rejoin(left, state, Halt::breaks, node.line, why);
  }
  if (state.halt != Halt::none) return Truth::unknown;
  state.taint(name, taint(node.line, why));
  if (node.text == "select") state.taint("REPLY", taint(node.line, why));
  repeatedly(state, node.line, why, [&](ShellState& at) {
    at.taint(name, taint(node.line, why));
    run(*node.parts[0], at);
  });
  return Truth::unknown;
}

Truth ShellRunner::choice(const ShellNode& node, ShellState& state) {
  ShellExpansion expansion(state, context_);
  expansion.for_condition();
  const std::string subject = expansion.whole(node.words[0].text, node.line).text;
  Truth truth = Truth::yes;
  // Runs the clauses from i on; `falls`: without a test.
  std::function<void(std::size_t, bool, ShellState&)> from = [&](std::size_t i, bool falls, ShellState& at) {
    if (i >= node.cases.size() || at.halt != Halt::none) return;
    const ShellCase& clause = node.cases[i];
    Truth matches = falls ? Truth::yes : Truth::no;
    for (const ShellToken& pattern : clause.patterns) {
      if (matches == Truth::yes) break;
      const std::string text =
          ShellExpansion(at, context_).for_condition().pattern(pattern.text, pattern.line);
      matches = any_of(matches, text == "*" ? Truth::yes : matches_pattern(subject, text));
    }
    const auto taken = [&](ShellState& then) {
      truth = run(*clause.body, then);
      if (clause.end == ";&") from(i + 1, true, then);
      if (clause.end == ";;&") from(i + 1, false, then);
    };
    if (matches == Truth::yes) return taken(at);
    if (matches == Truth::no) return from(i + 1, false, at);
    const std::string why = fmt::format("a pattern of `case` in line {} matches", node.line);
    const std::string before = doubt_;
    if (doubt_.empty()) doubt_ = fmt::format("may not run: it is not known if {}", why);
    ShellState other = at;
    count(at);
    taken(other);
    from(i + 1, false, at);
    doubt_ = before;
    at = joined(std::move(at), std::move(other), node.line, fmt::format("it is not known if {}", why));
    truth = Truth::unknown;
  };
  from(0, false, state);
  return truth;
}

Truth ShellRunner::test(const ShellNode& node, ShellState& state) {
  std::vector<TestWord> words;
  ShellExpansion expansion(state, context_);
  expansion.for_condition();
  bool odd = false;
  bool matches = false;
  for (const ShellToken& token : node.words) {
    TestWord word;
    if (token.kind == ShellToken::Kind::word) {
      word.text = expansion.whole(token.text, token.line).text;
      word.pattern = expansion.pattern(token.text, token.line);
      word.operation = token.text.find_first_of("\"'\\$`") == std::string::npos;
    } else {
      word.text = token.text;
      word.operation = true;
      odd = odd || token.kind != ShellToken::Kind::separator;
    }
    matches = matches || token.text == "=~";
    words.push_back(std::move(word));
  }
  const std::string reason = taint(node.line, fmt::format("`[[ {} ]]` is not evaluated", brief(node)));
  if (matches) state.taint("BASH_REMATCH", reason);
  for (const TestWord& word : words)  // numbers may be expressions that set variables
    if (word.text.find('=') != std::string::npos || word.text.find("++") != std::string::npos ||
        word.text.find("--") != std::string::npos) {
      const bool compares = std::ranges::any_of(words, [](const TestWord& each) {
        return each.operation &&
               (each.text == "-eq" || each.text == "-ne" || each.text == "-lt" || each.text == "-le" ||
                each.text == "-gt" || each.text == "-ge" || each.text == "-v");
      });
      if (compares && !word.operation) expansion.taint_names(UnknownParts::without(word.text), reason);
      if (compares && word.operation && word.text.size() > 2) expansion.taint_names(word.text, reason);
    }
  return odd || matches ? Truth::unknown : double_bracket_test(words);
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
                              const std::map<std::string, std::string>& environment) {
  ShellState state;
  for (const auto& [variable, value] : environment) {
    std::size_t argument = 0;  // --set 2=8B gives $2
    const char* const stop = variable.data() + variable.size();
    const auto [end, error] = std::from_chars(variable.data(), stop, argument);
    if (error != std::errc() || end != stop) {
      state.variables[variable].items = {{value}};
    } else if (argument >= 1 && argument <= kMostArguments) {
      std::vector<ShellWord>& items = state.variables[kShellArguments].items;
      if (items.size() < argument) items.resize(argument, {"", 1, false});
      items[argument - 1] = {value};
    }
  }
  return ShellRunner(name, other).script(text, std::move(state));
}

}  // namespace plumbline
