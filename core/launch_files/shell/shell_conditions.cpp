// if, case, [[ ]] and (( )): one way is taken where the condition is known, else both.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/launch_files/shell/shell_runner.hpp"

namespace plumbline {
namespace {

/// Text of the parts that may stand for others in messages: one line, not long.
std::string brief(const ShellNode& node) {
  std::string text;
  for (const ShellToken& word : node.words) text += (text.empty() ? "" : " ") + word.text;
  return text;
}

}  // namespace

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

}  // namespace plumbline
