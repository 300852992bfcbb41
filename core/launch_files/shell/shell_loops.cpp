// Loops: those over constants round by round, others as code that may run any number of times.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/launch_files/shell/shell_runner.hpp"

namespace plumbline {
namespace {

constexpr int kMostRounds = 1000;  // of a loop

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

}  // namespace plumbline
