// Words as written: quotes, marks, and what a dollar sign begins.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/base/error.hpp"
#include "core/launch_files/shell/shell_parameter.hpp"
#include "core/launch_files/shell/word_expander.hpp"

namespace plumbline {
namespace {

constexpr int kDeepestExpansion = 40;

bool begins_number(char c) {
  return c >= '0' && c <= '9';
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

std::vector<ShellWord> WordExpander::words(std::string_view text, bool in_quotes) {
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

std::string WordExpander::not_evaluated() const {
  return fmt::format("which is not evaluated (line {} of {})", line_, context_.name);
}

void WordExpander::run(std::string_view text, bool in_quotes) {
  if (++context_.depth > kDeepestExpansion)
    throw InputError(fmt::format("{}:{}: expands too deep, expected a launch script", context_.name, line_));
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

bool WordExpander::tilde(std::string_view text, std::size_t at, bool begins) const {
  if (mode_.pattern) return false;
  return at == 0 ? begins : mode_.assignment && text[at - 1] == ':';
}

void WordExpander::literal(char c) {
  if (mode_.split && in_default_ > 0 && (c == ' ' || c == '\t' || c == '\n')) return end_word();
  if (c == '*' || c == '?') matches_files_ = true;
  if (c == '[') bracket_ = true;
  if (c == ']' && bracket_) matches_files_ = true;
  add(std::string_view(&c, 1));
}

void WordExpander::quoted(std::string_view text) {
  if (!mode_.pattern) return add(text);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) add("\\");
    add(std::string_view(&c, 1));
  }
}

void WordExpander::in_double_quotes(std::string_view text) {
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

std::size_t WordExpander::closing_backquote(std::string_view text, std::size_t at) {
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '`') {
      return i;
    }
  }
  return text.size() - 1;
}

std::size_t WordExpander::quoted_length(std::string_view text) {
  if (text[0] == '\'') return std::min(text.find('\'', 1), text.size() - 1) + 1;
  return std::min((text[0] == '`' ? closing_backquote(text, 0) : closing_quote(text, 0)) + 1, text.size());
}

std::size_t WordExpander::closing_quote(std::string_view text, std::size_t at) {
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

std::size_t WordExpander::bracketed(std::string_view text) {
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

bool WordExpander::sum_of_expr(std::string_view whole, bool in_quotes) {
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
    const bool begins = at == 0 || !begins_number(inside[at - 1]);
    if (begins && at + 1 < inside.size() && begins_number(inside[at + 1]))
      return false;  // 010 is no octal here
  }
  const auto value = in_.arithmetic(inside, line_, std::string(whole));
  if (value) add(fmt::format("{}", *value));
  return value.has_value();
}

std::size_t WordExpander::dollar(std::string_view text, bool in_quotes) {
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
  if (length > 0 || begins_number(next) || next == '@' || next == '*') {
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

void WordExpander::item(const ShellWord& value, bool in_quotes) {
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
    return unknown(context_.unknown.shown(value.text), UnknownCause::outside, "which a changed IFS may split",
                   true);
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

void WordExpander::add(std::string_view text) {
  context_.count(text.size());
  word_.text += text;
  if (!text.empty()) open_ = true;
}

void WordExpander::marked(std::string_view mark, bool in_quotes) {
  add(mark);
  if (!in_quotes && mode_.split) word_.splits = true;
}

void WordExpander::unknown(std::string_view whole, UnknownCause cause, std::string reason, bool splits) {
  marked(context_.unknown.mark({context_.unknown.shown(whole), cause, std::move(reason)}), !splits);
}

void WordExpander::end_word() {
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
