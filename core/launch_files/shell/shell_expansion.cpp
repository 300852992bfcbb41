#include "core/launch_files/shell/shell_expansion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/launch_files/shell/shell_parameter.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 22;  // of all expansions
constexpr int kDeepestExpansion = 40;

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

/// Layers by letter, M-M*-E, as --hybrid-layer-pattern has them: no files have such names.
bool is_hybrid_pattern(std::string_view text) {
  return text.size() > 1 && text.find_first_not_of("M*-E") == std::string_view::npos;
}

/// "[0,1]*24", a list of layers rather than names of files.
bool is_number_pattern(std::string_view text) {
  return text.starts_with('[') && text.find_first_not_of("[]0123456789,*+") == std::string_view::npos;
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

/// Expands one word; lives for that long.
class WordExpander {
 public:
  struct Mode {
    bool split = false;
    bool pattern = false;
    bool assignment = false;  // a tilde behind a colon counts
  };
  WordExpander(ShellExpansion& in, int line, Mode mode)
      : in_(in), state_(in.state_), context_(in.context_), line_(line), mode_(mode), word_{"", line} {}

  std::vector<ShellWord> words(std::string_view text, bool in_quotes = false) {
    const std::vector<std::string> braced =
        mode_.split && !in_quotes && has_shell_braces(text) ? shell_braces(text) : std::vector<std::string>();
    if (!braced.empty()) {
      for (const std::string& each : braced) {
        run(each, false);
        end_word();
      }
      return std::move(words_);
    }
    if (mode_.split && has_shell_braces(text)) {
      in_.taint_names(text, shell_taint(context_, line_, "words in braces are not evaluated"));
      unknown(text, UnknownCause::outside, not_evaluated(), true);
    } else {
      run(text, in_quotes);
    }
    end_word();
    return std::move(words_);
  }

 private:
  std::string not_evaluated() const {
    return fmt::format("which is not evaluated (line {} of {})", line_, context_.name);
  }

  void run(std::string_view text, bool in_quotes) {
    if (++context_.depth > kDeepestExpansion)
      throw InputError(
          fmt::format("{}:{}: expands too deep, expected a launch script", context_.name, line_));
    const bool begins = word_.text.empty() && !open_;
    for (std::size_t at = 0; at < text.size();) {
      const char c = text[at];
      if (c == UnknownParts::kBegin) {
        const std::size_t length = UnknownParts::length(text.substr(at));
        marked(text.substr(at, length), in_quotes);
        at += length;
      } else if (c == '\\' && at + 1 < text.size()) {
        const char next = text[at + 1];
        const bool kept = in_quotes && std::string_view("$`\"\\\n").find(next) == std::string_view::npos;
        if (kept) quoted(std::string_view(&c, 1));
        if (next != '\n') quoted(std::string_view(&next, 1));
        if (next != '\n') open_ = true;
        at += 2;
      } else if (c == '\'' && !in_quotes) {
        const std::size_t end = std::min(text.find('\'', at + 1), text.size());
        quoted(text.substr(at + 1, end - at - 1));
        open_ = word_.quoted = true;
        at = end + 1;
      } else if (c == '"' && in_quotes) {
        ++at;  // quotes in "${A:-"x"}"
      } else if (c == '"') {
        const std::size_t end = closing_quote(text, at);
        in_double_quotes(text.substr(at + 1, end - at - 1));
        at = end + 1;
      } else if (c == '`') {
        const std::size_t end = closing_backquote(text, at);
        unknown(text.substr(at, end - at + 1), UnknownCause::outside, not_evaluated(), !in_quotes);
        at = end + 1;
      } else if (c == '$') {
        at += dollar(text.substr(at), in_quotes);
      } else if ((c == '<' || c == '>') && !in_quotes && at + 1 < text.size() && text[at + 1] == '(') {
        const std::size_t length = 1 + bracketed(text.substr(at + 1));
        unknown(text.substr(at, length), UnknownCause::outside, not_evaluated(), false);
        at += length;
      } else if (c == '~' && !in_quotes && tilde(text, at, begins)) {
        const std::size_t end = std::min(text.find_first_of("/:", at), text.size());
        unknown(text.substr(at, end - at), UnknownCause::outside, not_evaluated(), false);
        at = end;
      } else if (in_quotes) {
        quoted(std::string_view(&c, 1));
        ++at;
      } else {
        literal(c);
        ++at;
      }
    }
    --context_.depth;
  }

  bool tilde(std::string_view text, std::size_t at, bool begins) const {
    if (mode_.pattern) return false;
    return at == 0 ? begins : mode_.assignment && text[at - 1] == ':';
  }

  void literal(char c) {
    if (mode_.split && in_default_ > 0 && (c == ' ' || c == '\t' || c == '\n')) return end_word();
    if (c == '*' || c == '?') matches_files_ = true;
    if (c == '[') bracket_ = true;
    if (c == ']' && bracket_) matches_files_ = true;
    add(std::string_view(&c, 1));
  }

  /// Characters without a special meaning.
  void quoted(std::string_view text) {
    if (!mode_.pattern) return add(text);
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) add("\\");
      add(std::string_view(&c, 1));
    }
  }

  void in_double_quotes(std::string_view text) {
    const bool was_open = open_;
    no_items_ = false;
    const std::size_t before = word_.text.size();
    open_ = word_.quoted = true;
    const std::size_t count = words_.size();
    run(text, true);
    // "${A[@]}" of an empty array is no word.
    if (no_items_ && !was_open && count == words_.size() && before == word_.text.size()) {
      open_ = false;
      word_.quoted = before > 0;
    }
    no_items_ = false;
  }

  static std::size_t closing_backquote(std::string_view text, std::size_t at) {
    for (std::size_t i = at + 1; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '`') {
        return i;
      }
    }
    return text.size() - 1;
  }

  /// Length of a quoted part, quotes included.
  static std::size_t quoted_length(std::string_view text) {
    if (text[0] == '\'') return std::min(text.find('\'', 1), text.size() - 1) + 1;
    return std::min((text[0] == '`' ? closing_backquote(text, 0) : closing_quote(text, 0)) + 1, text.size());
  }

  static std::size_t closing_quote(std::string_view text, std::size_t at) {
    for (std::size_t i = at + 1; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '`') {
        i = closing_backquote(text, i);
      } else if (text[i] == '$' && i + 1 < text.size() && (text[i + 1] == '{' || text[i + 1] == '(')) {
        i += bracketed(text.substr(i + 1));
      } else if (text[i] == '"') {
        return i;
      }
    }
    return text.size();
  }

  /// Length of the bracketed part at the front of `text`, brackets included.
  static std::size_t bracketed(std::string_view text) {
    const char open = text[0];
    const char close = open == '(' ? ')' : '}';
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '\'' || text[i] == '"' || text[i] == '`') {
        i += quoted_length(text.substr(i)) - 1;
      } else if (text[i] == '$' && i + 1 < text.size() && (text[i + 1] == '{' || text[i + 1] == '(')) {
        i += bracketed(text.substr(i + 1));
      } else if (text[i] == open && (open == '(' || i == 0)) {
        ++depth;
      } else if (text[i] == close && --depth == 0) {
        return i + 1;
      }
    }
    return text.size();
  }

  /// Adds the value of $(expr 16 / $N): whole numbers and + - * / %. False: it is another command.
  bool sum_of_expr(std::string_view whole, bool in_quotes) {
    constexpr std::string_view kCommand = "$(expr ";
    if (!whole.starts_with(kCommand)) return false;
    std::string words(whole.substr(kCommand.size(), whole.size() - kCommand.size() - 1));
    std::erase_if(words, [](char c) { return c == '\\' || c == '\'' || c == '"'; });
    const std::string inside = in_.quoted(words, line_);
    const UnknownPart* const part = context_.unknown.of(inside);
    if (part != nullptr) {
      unknown(whole, part->cause, fmt::format("whose {} is one {}", part->text, part->reason), !in_quotes);
      return true;
    }
    if (inside.find_first_not_of("0123456789 +-*/%()") != std::string::npos) return false;
    for (std::size_t at = inside.find('0'); at != std::string::npos; at = inside.find('0', at + 1)) {
      const bool begins = at == 0 || !is_digit(inside[at - 1]);
      if (begins && at + 1 < inside.size() && is_digit(inside[at + 1])) return false;  // 010 is no octal here
    }
    const auto value = in_.arithmetic(inside, line_, std::string(whole));
    if (value) add(fmt::format("{}", *value));
    return value.has_value();
  }

  /// Expands what starts with a dollar sign; returns its length.
  std::size_t dollar(std::string_view text, bool in_quotes) {
    const char next = text.size() == 1 ? ' ' : text[1];
    if (text.starts_with("$((")) {
      const std::size_t length = 1 + bracketed(text.substr(1));
      const std::string_view shown = text.substr(0, length);
      const std::string inside = length > 5 ? in_.quoted(text.substr(3, length - 5), line_) : "";
      const UnknownPart* const part = context_.unknown.of(inside);
      const auto value = part == nullptr ? in_.arithmetic(inside, line_, std::string(shown)) : std::nullopt;
      if (value) {
        add(fmt::format("{}", *value));
      } else if (part != nullptr) {
        in_.taint_set(UnknownParts::without(inside), line_, std::string(shown));
        unknown(shown, part->cause, fmt::format("whose {} is one {}", part->text, part->reason), !in_quotes);
      } else {
        unknown(shown, UnknownCause::outside, not_evaluated(), !in_quotes);
      }
      return length;
    }
    if (next == '(' || next == '{') {
      const std::size_t length = 1 + bracketed(text.substr(1));
      if (next == '(') {
        if (sum_of_expr(text.substr(0, length), in_quotes)) return length;
        if (text.substr(0, length).find(" --") != std::string_view::npos)
          context_.substitutions.push_back({std::string(text.substr(2, length - 3)), line_});
        unknown(text.substr(0, length), UnknownCause::outside, not_evaluated(), !in_quotes);
      } else {
        parameter(text.substr(2, length > 3 ? length - 3 : 0), text.substr(0, length), in_quotes);
      }
      return length;
    }
    if (next == '\'' && !in_quotes) {
      std::size_t end = 2;
      while (end < text.size() && text[end] != '\'') end += text[end] == '\\' ? 2 : 1;
      const std::string_view inside = text.substr(2, std::min(end, text.size()) - 2);
      if (inside.find('\\') == std::string_view::npos) {
        quoted(inside);
        open_ = word_.quoted = true;
      } else {
        unknown(text.substr(0, end + 1), UnknownCause::outside, not_evaluated(), false);
      }
      return std::min(end + 1, text.size());
    }
    if (next == '"' && !in_quotes) return 1;  // $"text" is "text"
    const std::size_t length = name_length(text.substr(1));
    if (length > 0 || is_digit(next) || next == '@' || next == '*') {
      const std::size_t size = std::max<std::size_t>(length, 1);
      value_of(std::string(text.substr(1, size)), text.substr(0, size + 1), in_quotes, Items::first);
      return size + 1;
    }
    if (std::string_view("#?$!-").find(next) != std::string_view::npos) {
      special(text.substr(0, 2), in_quotes);
      return 2;
    }
    quoted("$");
    return 1;
  }

  void special(std::string_view whole, bool in_quotes) {
    const ShellVariable* const arguments = state_.find(kShellArguments);
    if (whole[1] != '#') return unknown(whole, UnknownCause::outside, not_evaluated(), !in_quotes);
    if (arguments == nullptr)
      return unknown(whole, UnknownCause::unset, "which the file does not set", !in_quotes);
    if (!arguments->taint.empty())
      return unknown(whole, UnknownCause::left_out, arguments->taint, !in_quotes);
    add(fmt::format("{}", arguments->items.size()));
  }

  enum class Items { first, all, joined };

  /// ${inside}, written as `whole`.
  void parameter(std::string_view inside, std::string_view whole, bool in_quotes) {
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

  std::optional<std::int64_t> number_in(std::string_view text, std::string_view whole) {
    const std::string inside = in_.quoted(text, line_);
    if (!UnknownParts::known(inside)) return std::nullopt;
    return in_.arithmetic(inside, line_, std::string(whole));
  }

  /// A variable all of whose items are known; nullptr: another.
  const ShellVariable* known_variable(const std::string& name) const {
    const ShellVariable* const found = changes(name) ? nullptr : state_.find(name);
    if (found == nullptr || !found->taint.empty() || found->attributes || found->items.empty())
      return nullptr;
    const bool known = std::all_of(found->items.begin(), found->items.end(),
                                   [](const ShellWord& item) { return UnknownParts::known(item.text); });
    return known ? found : nullptr;
  }

  /// ${#NAME} and ${#NAME[@]}, of which `inside` is what follows the sign; false: it is not evaluated.
  bool counted_items(std::string_view inside) {
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

  /// Items of a known variable behind an operator that changes them: ${A%x}, ${A/x/y}, ${A:1:2}, ${A,,}.
  std::optional<std::vector<ShellWord>> operated_items(const std::string& name, std::string_view rest,
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

  /// "1:2" of the characters of one item, or of the items of an array.
  std::optional<std::vector<ShellWord>> sliced(std::vector<ShellWord> all, std::string_view numbers,
                                               std::string_view whole, Items items) {
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

  void take_default(const std::string& name, std::string_view otherwise, std::string_view whole) {
    std::string value(otherwise);
    std::erase_if(value, [](char c) { return c == '"' || c == '\''; });
    const bool number = !value.empty() && std::all_of(value.begin(), value.end(), is_digit);
    if (number && state_.find(name) == nullptr && name_length(name) > 0)
      context_.defaults.push_back({name, std::string(whole), std::move(value), line_});
  }

  void default_value(std::string_view text, bool in_quotes) {
    if (!in_quotes) ++in_default_;
    run(text, in_quotes);
    if (!in_quotes) --in_default_;
  }

  /// The variable is set (and with a colon, not empty); nothing: unknown.
  std::optional<bool> is_given(const std::string& name, bool colon, Items items) const {
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

  static std::optional<bool> filled(const std::string& text, bool colon) {
    if (!colon || !UnknownParts::without(text).empty()) return true;
    return text.empty() ? std::optional(false) : std::nullopt;
  }

  void not_evaluated_parameter(std::string_view inside, std::string_view whole, bool in_quotes) {
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

  void value_of(const std::string& name, std::string_view whole, bool in_quotes, Items items,
                std::size_t index = 0) {
    const bool argument = is_digit(name[0]);
    const bool arguments = name == "@" || name == "*";
    if (arguments) items = name == "@" ? Items::all : Items::joined;
    if (argument) std::from_chars(name.data(), name.data() + name.size(), index);
    const ShellVariable* const variable =
        state_.find(argument || arguments ? std::string_view(kShellArguments) : name);
    if (variable == nullptr || changes(name) || (argument && index == 0)) {
      if (has_own_value(name) || changes(name) || (argument && index == 0))
        return unknown(whole, UnknownCause::outside, not_evaluated(), !in_quotes);
      if (in_.condition_ && !argument && !arguments) return;
      return unknown(whole, UnknownCause::unset, "which the file does not set", !in_quotes);
    }
    if (!variable->taint.empty()) return unknown(whole, UnknownCause::left_out, variable->taint, !in_quotes);
    if (argument) --index;
    if (items != Items::first) return put_items(variable->items, whole, in_quotes, items);
    if (index < variable->items.size()) item(variable->items[index], in_quotes);
  }

  void put_items(const std::vector<ShellWord>& all, std::string_view whole, bool in_quotes, Items items) {
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

  bool ifs_changes() const {
    const auto found = state_.variables.find("IFS");
    return found != state_.variables.end() && found->second.is_set;
  }

  void item(const ShellWord& value, bool in_quotes) {
    context_.count(value.text.size() + 1);
    word_.line = value.line;
    if (in_quotes || !mode_.split) {
      open_ = true;
      if (in_quotes) word_.quoted = true;
      for (std::string_view text = value.text; !text.empty();) {
        const bool part = text[0] == UnknownParts::kBegin;
        const std::size_t size =
            part ? UnknownParts::length(text) : std::min(text.find(UnknownParts::kBegin), text.size());
        if (part || !in_quotes) {
          add(text.substr(0, size));
        } else {
          quoted(text.substr(0, size));
        }
        text.remove_prefix(size);
      }
      return;
    }
    if (ifs_changes() && !value.text.empty())
      return unknown(context_.unknown.shown(value.text), UnknownCause::outside,
                     "which a changed IFS may split", true);
    for (std::size_t at = 0; at < value.text.size();) {
      const char c = value.text[at];
      if (c == UnknownParts::kBegin) {
        const std::size_t length = UnknownParts::length(std::string_view(value.text).substr(at));
        marked(std::string_view(value.text).substr(at, length), false);
        at += length;
        continue;
      }
      if (c == ' ' || c == '\t' || c == '\n') {
        end_word();
        word_.line = value.line;
      } else {
        literal(c);
      }
      ++at;
    }
  }

  void add(std::string_view text) {
    context_.count(text.size());
    word_.text += text;
    if (!text.empty()) open_ = true;
  }
  void marked(std::string_view mark, bool in_quotes) {
    add(mark);
    if (!in_quotes && mode_.split) word_.splits = true;
  }
  void unknown(std::string_view whole, UnknownCause cause, std::string reason, bool splits) {
    marked(context_.unknown.mark({context_.unknown.shown(whole), cause, std::move(reason)}), !splits);
  }

  void end_word() {
    // Names of files are rarely like an option or a layer pattern ([0]*1+[1]*3).
    if (mode_.split && matches_files_ && !word_.text.starts_with("-") &&
        word_.text.find('(') == std::string::npos && !is_number_pattern(word_.text) &&
        !is_hybrid_pattern(word_.text)) {
      const std::string whole = context_.unknown.shown(word_.text);
      const UnknownPart* const part = context_.unknown.of(word_.text);
      if (part == nullptr || part->cause != UnknownCause::left_out) {
        word_.text = context_.unknown.mark({whole, UnknownCause::outside, "which stands for names of files"});
        word_.splits = true;
      }
    }
    if (open_) words_.push_back(std::move(word_));
    word_ = {"", line_};
    open_ = matches_files_ = bracket_ = false;
  }

  ShellExpansion& in_;
  ShellState& state_;
  ShellContext& context_;
  int line_;
  Mode mode_;
  std::vector<ShellWord> words_;
  ShellWord word_;
  bool open_ = false;           // the word has begun, though it may be empty
  bool matches_files_ = false;  // an unquoted * or ?
  bool bracket_ = false;
  bool no_items_ = false;  // an empty array was expanded
  int in_default_ = 0;
};

std::vector<ShellWord> ShellExpansion::words(const ShellToken& token) {
  return WordExpander(*this, token.line, {true, false, false}).words(token.text);
}

ShellWord ShellExpansion::whole(std::string_view text, int line) {
  std::vector<ShellWord> words = WordExpander(*this, line, {false, false, true}).words(text);
  return words.empty() ? ShellWord{"", line} : std::move(words.front());
}

std::string ShellExpansion::pattern(std::string_view text, int line) {
  std::vector<ShellWord> words = WordExpander(*this, line, {false, true, false}).words(text);
  return words.empty() ? "" : std::move(words.front().text);
}

std::string ShellExpansion::quoted(std::string_view text, int line) {
  std::vector<ShellWord> words = WordExpander(*this, line, {}).words(text, true);
  return words.empty() ? "" : std::move(words.front().text);
}

}  // namespace plumbline
