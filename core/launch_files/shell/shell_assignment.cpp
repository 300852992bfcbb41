// Assignments to the variables of a script.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "core/base/error.hpp"
#include "core/launch_files/shell/shell_arithmetic.hpp"
#include "core/launch_files/shell/shell_expansion.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 22;  // of all expansions

/// Length of "NAME" or "NAME[...]" at the front of a word; 0: none.
std::size_t target_length(std::string_view text) {
  const std::size_t name = name_length(text);
  if (name == 0 || name == text.size() || text[name] != '[') return name;
  const std::size_t end = text.find(']', name);
  return end == std::string_view::npos ? 0 : end + 1;
}

}  // namespace

void ShellContext::count(std::size_t more) {
  bytes += more;
  if (bytes > kMostBytes)
    throw InputError(fmt::format("{}: variables expand to more than {} MiB, expected a launch script", name,
                                 kMostBytes >> 20));
}

std::string shell_taint(const ShellContext& context, int line, const std::string& what) {
  return fmt::format("which line {} of {} may set: {}", line, context.name, what);
}

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
  if (std::exchange(variable.given, false)) return;
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

bool ShellExpansion::set_item(const std::string& name, std::string_view target, ShellWord& value) {
  const std::string_view inside = target.substr(name.size() + 1, target.size() - name.size() - 2);
  const auto found = state_.variables.find(name);
  if (found == state_.variables.end() || !found->second.is_set || !found->second.array) return false;
  ShellVariable& variable = found->second;
  if (variable.readonly || variable.attributes || !variable.taint.empty()) return false;
  const std::string text = quoted(inside, value.line);
  const auto index =
      UnknownParts::known(text) ? arithmetic(text, value.line, std::string(target)) : std::nullopt;
  if (!index || *index < 0 || static_cast<std::size_t>(*index) > variable.items.size()) return false;
  value.quoted = false;
  if (static_cast<std::size_t>(*index) == variable.items.size()) {
    variable.items.push_back(std::move(value));
  } else {
    variable.items[static_cast<std::size_t>(*index)] = std::move(value);
  }
  return true;
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
    if (!append && set_item(name, std::string_view(token.text).substr(0, length), value)) return;
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
    const std::size_t length = name_length(name);
    const ShellVariable* const variable = state_.find(name.substr(0, length));
    if (variable == nullptr || !variable->taint.empty()) return std::nullopt;
    const bool item = length < name.size();
    if (item && variable->attributes) return std::nullopt;  // it may be an associative array
    const std::size_t index = item ? std::strtoull(name.c_str() + length + 1, nullptr, 10) : 0;
    if (index >= variable->items.size()) return std::nullopt;
    const std::string& held = variable->items[index].text;
    values += UnknownParts::without(held) + " ";
    if (!UnknownParts::known(held)) return std::nullopt;
    return held;
  });
  if (value) {
    for (const auto& [name, number] : value->assigned) set(name, {fmt::format("{}", number), line});
    return value->value;
  }
  taint_set(text, line, shown);
  taint_set(values, line, shown);
  return std::nullopt;
}

}  // namespace plumbline
