// Values of $NAME and ${NAME...} in words.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/launch_files/shell/shell_parameter.hpp"
#include "core/launch_files/shell/word_expander.hpp"

namespace plumbline {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Variables that bash or a login sets.
bool has_own_value(std::string_view name) {
  static const std::set<std::string_view> kNames = {
      "HOME",     "PATH",     "PWD",      "OLDPWD",    "SHELL",    "USER", "LOGNAME",
      "HOSTNAME", "HOSTTYPE", "MACHTYPE", "OSTYPE",    "TERM",     "LANG", "SHLVL",
      "IFS",      "OPTIND",   "OPTERR",   "UID",       "EUID",     "PPID", "GROUPS",
      "DIRSTACK", "COLUMNS",  "LINES",    "SHELLOPTS", "BASHOPTS", "PS4",  "_"};
  return kNames.contains(name) || name.starts_with("BASH");
}

/// Variables whose value changes by itself, assigned or not.
bool changes(std::string_view name) {
  static const std::set<std::string_view> kNames = {
      "RANDOM",   "SRANDOM",      "SECONDS",       "LINENO",     "EPOCHSECONDS", "EPOCHREALTIME",
      "FUNCNAME", "BASH_COMMAND", "BASH_SUBSHELL", "PIPESTATUS", "BASHPID",      "_",
      "HISTCMD",  "BASH_SOURCE",  "BASH_LINENO",   "DIRSTACK",   "GROUPS"};
  return kNames.contains(name);
}

}  // namespace

void WordExpander::special(std::string_view whole, bool in_quotes) {
  const ShellVariable* const arguments = state_.find(kShellArguments);
  if (whole[1] != '#') return unknown(whole, UnknownCause::outside, not_evaluated(), !in_quotes);
  if (arguments == nullptr)
    return unknown(whole, UnknownCause::unset, "which the file does not set", !in_quotes);
  if (!arguments->taint.empty()) return unknown(whole, UnknownCause::left_out, arguments->taint, !in_quotes);
  add(fmt::format("{}", arguments->items.size()));
}

void WordExpander::parameter(std::string_view inside, std::string_view whole, bool in_quotes) {
  std::size_t length = name_length(inside);
  if (length == 0 && !inside.empty() && (inside[0] == '@' || inside[0] == '*')) length = 1;
  while (length < inside.size() && name_length(inside) == 0 && is_digit(inside[length])) ++length;
  if (inside == "#") return special("$#", in_quotes);
  if (inside.starts_with('#') && counted_items(inside.substr(1))) return;
  if (inside.starts_with('!') && is_shell_name(inside.substr(1))) {
    const ShellVariable* const named = known_variable(std::string(inside.substr(1)));
    if (named != nullptr && is_shell_name(named->items.front().text))
      return value_of(named->items.front().text, whole, in_quotes, Items::first);
  }
  if (length == 0) return not_evaluated_parameter(inside, whole, in_quotes);
  const std::string name(inside.substr(0, length));
  std::string_view rest = inside.substr(length);
  Items items = Items::first;
  std::size_t index = 0;
  if (rest.starts_with("[@]") || rest.starts_with("[*]")) {
    items = rest[1] == '@' ? Items::all : Items::joined;
    rest.remove_prefix(3);
  } else if (rest.starts_with("[")) {
    const std::size_t end = rest.rfind(']');
    const ShellVariable* const list = end + 1 == rest.size() ? state_.find(name) : nullptr;
    if (list == nullptr || !list->taint.empty() || list->attributes)
      return not_evaluated_parameter(inside, whole, in_quotes);
    const auto size = static_cast<std::int64_t>(list->items.size());
    auto at = number_in(rest.substr(1, end - 1), whole);
    if (at && *at < 0) at = *at + size;
    if (!at || *at < 0) return not_evaluated_parameter(inside, whole, in_quotes);
    index = static_cast<std::size_t>(std::min(*at, size));
    return value_of(name, whole, in_quotes, Items::first, index);
  }
  if (rest.empty()) return value_of(name, whole, in_quotes, items);
  if (const auto operated = operated_items(name, rest, whole, items))
    return put_items(*operated, whole, in_quotes, items);
  const bool colon = rest.starts_with(':');
  const std::string_view sign = rest.substr(colon ? 1 : 0, 1);
  const std::string_view otherwise = rest.substr(std::min<std::size_t>(rest.size(), colon ? 2 : 1));
  if (sign.empty() || std::string_view("-=?+").find(sign) == std::string_view::npos)
    return not_evaluated_parameter(inside, whole, in_quotes);
  const std::optional<bool> given = is_given(name, colon, items);
  if (!given) return not_evaluated_parameter(inside, whole, in_quotes);
  if (sign == "+") {
    if (*given) default_value(otherwise, in_quotes);
  } else if (*given || sign == "?") {
    value_of(name, whole, in_quotes, items);
  } else if (take_default(name, otherwise, whole); sign == "=") {
    if (name_length(name) == 0) return not_evaluated_parameter(inside, whole, in_quotes);
    in_.set(name, in_.whole(otherwise, line_));
    value_of(name, whole, in_quotes, Items::first);
  } else {
    default_value(otherwise, in_quotes);
  }
}

std::optional<std::int64_t> WordExpander::number_in(std::string_view text, std::string_view whole) {
  const std::string inside = in_.quoted(text, line_);
  if (!UnknownParts::known(inside)) return std::nullopt;
  return in_.arithmetic(inside, line_, std::string(whole));
}

const ShellVariable* WordExpander::known_variable(const std::string& name) const {
  const ShellVariable* const found = changes(name) ? nullptr : state_.find(name);
  if (found == nullptr || !found->taint.empty() || found->attributes || found->items.empty()) return nullptr;
  const bool known = std::all_of(found->items.begin(), found->items.end(),
                                 [](const ShellWord& item) { return UnknownParts::known(item.text); });
  return known ? found : nullptr;
}

bool WordExpander::counted_items(std::string_view inside) {
  const std::size_t length = name_length(inside);
  const std::string_view rest = inside.substr(length);
  const ShellVariable* const list = state_.find(inside.substr(0, length));
  if (length == 0 || list == nullptr || !list->taint.empty() || list->attributes) return false;
  const auto splits = [](const ShellWord& item) { return item.splits; };
  if (rest == "[@]" || rest == "[*]") {
    if (std::any_of(list->items.begin(), list->items.end(), splits)) return false;
    add(fmt::format("{}", list->items.size()));
    return true;
  }
  const ShellVariable* const known = rest.empty() ? known_variable(std::string(inside)) : nullptr;
  if (known == nullptr) return false;
  const std::string& text = known->items.front().text;
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    return false;
  add(fmt::format("{}", text.size()));
  return true;
}

std::optional<std::vector<ShellWord>> WordExpander::operated_items(const std::string& name,
                                                                   std::string_view rest,
                                                                   std::string_view whole, Items items) {
  const std::string_view sign = shell_operator_sign(rest);
  const bool part = rest.starts_with(':') && rest.size() > 1 &&
                    std::string_view("-=?+").find(rest[1]) == std::string_view::npos;
  if ((sign.empty() && !part) || name_length(name) == 0) return std::nullopt;
  const ShellVariable* const variable = known_variable(name);
  if (variable == nullptr) return std::nullopt;
  std::vector<ShellWord> all = variable->items;
  if (items == Items::first) all.resize(1);
  if (part) return sliced(std::move(all), rest.substr(1), whole, items);
  std::string_view pattern = rest.substr(sign.size());
  std::string_view with;
  if (sign[0] == '/') {
    std::size_t end = 0;
    while (end < pattern.size() && pattern[end] != '/') {
      const char c = pattern[end];
      if (c == '\'' || c == '"' || c == '`' || c == '$') return std::nullopt;
      end += c == '\\' ? 2 : 1;
    }
    with = pattern.substr(std::min(end + 1, pattern.size()));
    pattern = pattern.substr(0, end);
  }
  ShellOperator by{sign, in_.pattern(pattern, line_), in_.quoted(with, line_)};
  if (!UnknownParts::known(by.pattern) || !UnknownParts::known(by.with) ||
      with.find_first_of("'\"") != std::string_view::npos)
    return std::nullopt;
  for (ShellWord& item : all) {
    auto changed = shell_operated(item.text, by);
    if (!changed) return std::nullopt;
    item.text = std::move(*changed);
  }
  return all;
}

std::optional<std::vector<ShellWord>> WordExpander::sliced(std::vector<ShellWord> all,
                                                           std::string_view numbers, std::string_view whole,
                                                           Items items) {
  const std::size_t colon = numbers.find(':');
  if (numbers.find_first_of("?{[(") != std::string_view::npos) return std::nullopt;
  const std::string& text = all.front().text;
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    return std::nullopt;
  const auto size = static_cast<std::int64_t>(items == Items::first ? text.size() : all.size());
  auto from = number_in(numbers.substr(0, colon), whole);
  if (from && *from < 0) *from += size;
  auto length = colon == std::string_view::npos ? size : number_in(numbers.substr(colon + 1), whole);
  if (!from || !length || *from < 0) return std::nullopt;
  if (*length < 0 && items != Items::first) return std::nullopt;
  const std::int64_t begin = std::min(*from, size);
  const std::int64_t end = *length < 0 ? size + *length : begin + std::min(*length, size - begin);
  if (end < begin) return std::nullopt;
  if (items == Items::first) {
    all.front().text = text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    return all;
  }
  return std::vector<ShellWord>(all.begin() + begin, all.begin() + end);
}

void WordExpander::take_default(const std::string& name, std::string_view otherwise, std::string_view whole) {
  std::string value(otherwise);
  std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
  const bool number = !value.empty() && std::all_of(value.begin(), value.end(), is_digit);
  if (number && state_.find(name) == nullptr && name_length(name) > 0)
    context_.defaults.push_back({name, std::string(whole), std::move(value), line_});
}

void WordExpander::default_value(std::string_view text, bool in_quotes) {
  if (!in_quotes) ++in_default_;
  run(text, in_quotes);
  if (!in_quotes) --in_default_;
}

std::optional<bool> WordExpander::is_given(const std::string& name, bool colon, Items items) const {
  if (changes(name)) return std::nullopt;
  const ShellVariable* variable = state_.find(name);
  if (name == "*") variable = state_.find(kShellArguments);
  if (is_digit(name[0])) {
    const ShellVariable* const arguments = state_.find(kShellArguments);
    std::size_t index = 0;
    std::from_chars(name.data(), name.data() + name.size(), index);
    if (arguments == nullptr) return false;
    if (!arguments->taint.empty() || index == 0) return std::nullopt;
    if (index > arguments->items.size()) return false;
    return filled(arguments->items[index - 1].text, colon);
  }
  if (variable == nullptr) return has_own_value(name) ? std::nullopt : std::optional(false);
  if (!variable->taint.empty()) return std::nullopt;
  if (variable->items.empty()) return false;
  if (items != Items::first && variable->items.size() > 1) return true;
  return filled(variable->items.front().text, colon);
}

std::optional<bool> WordExpander::filled(const std::string& text, bool colon) {
  if (!colon || !UnknownParts::without(text).empty()) return true;
  return text.empty() ? std::optional(false) : std::nullopt;
}

void WordExpander::not_evaluated_parameter(std::string_view inside, std::string_view whole, bool in_quotes) {
  const std::string reason = shell_taint(context_, line_, fmt::format("`{}` is not evaluated", whole));
  if (inside.starts_with('!')) {
    if (inside.find('=') != std::string_view::npos) state_.taint_all(reason);
  } else if (inside.find('=') != std::string_view::npos || inside.find("++") != std::string_view::npos ||
             inside.find("--") != std::string_view::npos) {
    in_.taint_names(inside, reason);
  }
  const std::size_t from = inside.starts_with('#') ? 1 : 0;
  const std::string name(inside.substr(from, name_length(inside.substr(from))));
  const ShellVariable* const variable = state_.find(name);
  if (variable != nullptr && !variable->taint.empty())
    return unknown(whole, UnknownCause::left_out, variable->taint, !in_quotes);
  unknown(whole, UnknownCause::outside, not_evaluated(), !in_quotes);
}

void WordExpander::value_of(const std::string& name, std::string_view whole, bool in_quotes, Items items,
                            std::size_t index) {
  const bool argument = is_digit(name[0]);
  const bool arguments = name == "@" || name == "*";
  if (arguments) items = name == "@" ? Items::all : Items::joined;
  if (argument) std::from_chars(name.data(), name.data() + name.size(), index);
  const ShellVariable* const variable =
      state_.find(argument || arguments ? std::string_view(kShellArguments) : name);
  if (variable != nullptr && variable->given) state_.variables[name].given = false;
  if (variable == nullptr || changes(name) || (argument && index == 0)) {
    if (has_own_value(name) || changes(name) || (argument && index == 0))
      return unknown(whole, UnknownCause::outside, not_evaluated(), !in_quotes);
    if (in_.condition_ && !argument && !arguments) return;
    if (context_.own_names.contains(name)) return;  // set in branches that do not run
    return unknown(whole, UnknownCause::unset, "which the file does not set", !in_quotes);
  }
  if (!variable->taint.empty()) return unknown(whole, UnknownCause::left_out, variable->taint, !in_quotes);
  if (argument) --index;
  if (items != Items::first) return put_items(variable->items, whole, in_quotes, items);
  if (index < variable->items.size()) item(variable->items[index], in_quotes);
}

void WordExpander::put_items(const std::vector<ShellWord>& all, std::string_view whole, bool in_quotes,
                             Items items) {
  if (items == Items::first) return item(all.front(), in_quotes);
  if (all.empty()) no_items_ = true;
  const bool joined = !mode_.split || (in_quotes && items == Items::joined);
  if (joined && all.size() > 1 && in_quotes && items == Items::joined && ifs_changes())
    return unknown(whole, UnknownCause::outside, "which IFS joins", false);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0 && joined) quoted(" ");
    if (i > 0 && !joined) end_word();
    item(all[i], in_quotes);
  }
}

bool WordExpander::ifs_changes() const {
  const auto found = state_.variables.find("IFS");
  return found != state_.variables.end() && found->second.is_set;
}

}  // namespace plumbline
