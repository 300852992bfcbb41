// Assignments to the variables of a script.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/launch_files/shell/shell_arithmetic.hpp"
#include "core/launch_files/shell/shell_expansion.hpp"

namespace plumbline {
namespace {

/// Length of "NAME" or "NAME[...]" at the front of a word; 0: none.
std::size_t target_length(std::string_view text) {
  const std::size_t name = name_length(text);
  if (name == 0 || name == text.size() || text[name] != '[') return name;
  const std::size_t end = text.find(']', name);
  return end == std::string_view::npos ? 0 : end + 1;
}

}  // namespace

bool ShellExpansion::assigns(const ShellToken& token) {
  const std::string_view rest = std::string_view(token.text).substr(target_length(token.text));
  return rest.size() < token.text.size() && (rest.starts_with("=") || rest.starts_with("+="));
}

void ShellExpansion::set(const std::string& name, ShellWord value) {
  ShellVariable& variable = state_.variables[name];
  if (variable.readonly) {
    state_.doubt = fmt::format("line {}, which assigns the readonly {}", value.line, name);
    return;
  }
  if (variable.order == 0) variable.order = static_cast<int>(state_.variables.size());
  variable.is_set = true;
  if (variable.attributes) {
    variable.taint = shell_taint(context_, value.line, "it has attributes of `declare`");
    return;
  }
  value.quoted = false;
  if (variable.array && !variable.items.empty() && variable.taint.empty()) {
    variable.items.front() = std::move(value);
    return;
  }
  if (variable.array && !variable.taint.empty()) return;  // its other items stay unknown
  variable.items.clear();
  variable.items.push_back(std::move(value));
  variable.taint.clear();
}

void ShellExpansion::assign_array(const std::string& name, const ShellToken& token, bool append) {
  std::vector<ShellWord> items;
  std::string taint;
  for (const ShellToken& item : token.items) {
    if (item.kind == ShellToken::Kind::separator && item.text == "\n") continue;
    if (item.kind != ShellToken::Kind::word ||
        (item.text.starts_with("[") && item.text.find("]=") != std::string::npos)) {
      taint = shell_taint(context_, token.line, "its list is not evaluated");
      taint_names(item.text, taint);
      continue;
    }
    for (ShellWord& word : words(item)) items.push_back(std::move(word));
  }
  for (const ShellWord& item : items) {
    const UnknownPart* const part = item.splits ? context_.unknown.of(item.text) : nullptr;
    if (part != nullptr && part->cause == UnknownCause::left_out) taint = part->reason;
  }
  ShellVariable& variable = state_.variables[name];
  if (variable.readonly) {
    state_.doubt = fmt::format("line {}, which assigns the readonly {}", token.line, name);
    return;
  }
  if (variable.order == 0) variable.order = static_cast<int>(state_.variables.size());
  if (variable.attributes) taint = shell_taint(context_, token.line, "it has attributes of `declare`");
  const bool keeps = append && variable.is_set;
  if (!keeps) variable.items.clear();
  variable.items.insert(variable.items.end(), std::make_move_iterator(items.begin()),
                        std::make_move_iterator(items.end()));
  if (!keeps || variable.taint.empty()) variable.taint = taint;
  variable.array = variable.is_set = true;
}

void ShellExpansion::assign(const ShellToken& token) {
  const std::size_t length = target_length(token.text);
  std::string_view rest = std::string_view(token.text).substr(length);
  const bool append = rest.starts_with("+=");
  rest.remove_prefix(append ? 2 : 1);
  const std::string name = token.text.substr(0, name_length(token.text));
  if (append && !state_.all_tainted.empty() && !state_.variables.contains(name))
    state_.taint(name, state_.all_tainted);
  if (token.kind == ShellToken::Kind::array) return assign_array(name, token, append);
  ShellWord value = whole(rest, token.line);
  value.line = token.line;
  if (length > name.size()) {
    taint_names(std::string_view(token.text).substr(0, length),
                shell_taint(context_, token.line, "an item of a list is not evaluated"));
    return;
  }
  const ShellVariable* const before = append ? state_.find(name) : nullptr;
  if (before == nullptr) return set(name, std::move(value));
  if (before->attributes || !before->taint.empty()) {
    state_.variables[name].items.push_back(std::move(value));  // what it may hold, for its arguments
    return;
  }
  if (!before->items.empty()) {
    context_.count(before->items.front().text.size());
    value.text = before->items.front().text + value.text;
    value.line = before->items.front().line;
  }
  set(name, std::move(value));
}

void ShellExpansion::taint_names(std::string_view text, const std::string& reason) {
  if (!UnknownParts::known(text)) state_.taint_all(reason);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = name_length(text.substr(at));
    if (length > 0) {
      state_.taint(std::string(text.substr(at, length)), reason);
    } else if (std::isdigit(static_cast<unsigned char>(text[at])) != 0) {
      while (at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0) ++at;
      continue;
    }
    at += std::max<std::size_t>(length, 1);
  }
}

void ShellExpansion::taint_set(std::string_view text, int line, const std::string& shown) {
  if (text.find('=') != std::string_view::npos || text.find("++") != std::string_view::npos ||
      text.find("--") != std::string_view::npos)
    taint_names(text, shell_taint(context_, line, fmt::format("`{}` is not evaluated", shown)));
}

std::optional<std::int64_t> ShellExpansion::arithmetic(std::string_view text, int line,
                                                       const std::string& shown) {
  std::string values;  // they may be expressions that set others
  const auto value = shell_arithmetic(text, [&](const std::string& name) -> std::optional<std::string> {
    const ShellVariable* const variable = state_.find(name);
    if (variable == nullptr || variable->items.empty() || !variable->taint.empty()) return std::nullopt;
    const std::string& held = variable->items.front().text;
    values += UnknownParts::without(held) + " ";
    if (!UnknownParts::known(held)) return std::nullopt;
    return held;
  });
  if (value) return value;
  taint_set(text, line, shown);
  taint_set(values, line, shown);
  return value;
}

}  // namespace plumbline
