#include "bench/plan/vary/text_edits.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace plumbline {
namespace {

constexpr std::size_t kMostCandidates = 64;
constexpr std::string_view kBlanks = " \t";

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

std::string replaced(std::string_view text, Span span, std::string_view by) {
  return fmt::format("{}{}{}", text.substr(0, span.begin), by, text.substr(span.end));
}

std::size_t line_begin(std::string_view text, std::size_t at) {
  const std::size_t found = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  return found == std::string_view::npos ? 0 : found + 1;
}

/// Behind the line's end, or at that of the text.
std::size_t line_end(std::string_view text, std::size_t at) {
  const std::size_t found = text.find('\n', at);
  return found == std::string_view::npos ? text.size() : found + 1;
}

std::string_view indent_of(std::string_view text, std::size_t at) {
  const std::size_t begin = line_begin(text, at);
  const std::size_t first = text.find_first_not_of(kBlanks, begin);
  return text.substr(begin, std::min(first, text.size()) - begin);
}

/// The name stands in a comment.
bool commented(std::string_view text, std::size_t at) {
  const std::size_t begin = line_begin(text, at);
  return text.substr(begin, at - begin).find('#') != std::string_view::npos;
}

/// Whole occurrences of a name outside comments; dashes and underscores are alike.
std::vector<std::size_t> occurrences(std::string_view text, std::string_view name) {
  const auto alike = [](char a, char b) {
    return a == b || ((a == '-' || a == '_') && (b == '-' || b == '_'));
  };
  std::vector<std::size_t> found;
  for (auto at = text.begin(); found.size() < kMostCandidates; ++at) {
    at = std::search(at, text.end(), name.begin(), name.end(), alike);
    if (at == text.end()) break;
    const auto place = static_cast<std::size_t>(at - text.begin());
    const std::size_t end = place + name.size();
    const bool whole =
        (place == 0 || !in_name(text[place - 1])) && (end == text.size() || !in_name(text[end]));
    if (whole && !commented(text, place)) found.push_back(place);
  }
  return found;
}

/// A shell's word: up to a blank, a bracket's or quote's end, or a continued line.
Span shell_word(std::string_view text, std::size_t begin) {
  Span span{begin, begin};
  char quote = 0;
  if (begin < text.size() && (text[begin] == '"' || text[begin] == '\'')) {
    quote = text[begin];
    span.end = text.find(quote, begin + 1);
    if (span.end == std::string_view::npos) return {begin, begin};
    ++span.begin;
    return span;
  }
  int braces = 0;
  while (span.end < text.size()) {
    const char c = text[span.end];
    if (c == '{') ++braces;
    if (c == '}') --braces;
    if (braces <= 0 && (std::string_view(" \t\n\"'();\\`|&").find(c) != std::string_view::npos)) break;
    if (c == '\n') break;
    ++span.end;
  }
  return span;
}

/// Name of the variable that a word is: $TP, ${TP}, ${TP:-2}; empty: it is none.
std::string_view variable_in(std::string_view word) {
  if (!word.starts_with('$')) return {};
  word.remove_prefix(word.starts_with("${") ? 2 : 1);
  std::size_t end = 0;
  while (end < word.size() && in_name(word[end]) && word[end] != '-') ++end;
  return word.substr(0, end);
}

/// The 2 of ${TP:-2}; nothing in another word.
std::optional<Span> default_in(std::string_view text, Span word) {
  const std::string_view inside = text.substr(word.begin, word.end - word.begin);
  const std::size_t colon = inside.find(":-");
  if (!inside.starts_with("${") || colon == std::string_view::npos || !inside.ends_with('}'))
    return std::nullopt;
  return Span{word.begin + colon + 2, word.end - 1};
}

/// The value in place of a word, or of the variable that the word is.
void replace_word(std::string_view text, Span word, const std::string& value, int depth,
                  std::vector<std::string>& texts) {
  constexpr int kMostVariables = 4;  // that stand for each other
  if (const auto inside = default_in(text, word)) texts.push_back(replaced(text, *inside, value));
  const std::string_view variable = variable_in(text.substr(word.begin, word.end - word.begin));
  if (!variable.empty() && depth < kMostVariables) {
    for (const std::size_t at : occurrences(text, variable)) {
      const std::size_t equals = at + variable.size();
      if (equals < text.size() && text[equals] == '=' && (at == 0 || text[at - 1] != '$'))
        replace_word(text, shell_word(text, equals + 1), value, depth + 1, texts);
    }
  }
  if (word.end > word.begin) texts.push_back(replaced(text, word, value));
}

/// Behind a flag: its value's begin, past blanks, "=" and continued lines.
std::size_t value_begin(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (text[at] == '=' || kBlanks.find(text[at]) != std::string_view::npos) {
      ++at;
    } else if (text.substr(at).starts_with("\\\n")) {
      at += 2;
    } else {
      break;
    }
  }
  return at;
}

/// The line without the span, or no line if nothing else is on it.
std::string without(std::string_view text, Span span) {
  const std::size_t begin = line_begin(text, span.begin);
  const std::size_t end = line_end(text, span.end);
  std::string left =
      fmt::format("{}{}", text.substr(begin, span.begin - begin), text.substr(span.end, end - span.end));
  const bool nothing = left.find_first_not_of(" \t\r\n\\") == std::string::npos;
  return replaced(text, {begin, end}, nothing ? "" : left);
}

void edit_shell(std::string_view text, const WantedArgument& wanted, const std::vector<std::string>& siblings,
                std::vector<std::string>& texts) {
  const std::vector<std::size_t> places = occurrences(text, wanted.name);
  for (const std::size_t at : places) {
    const std::size_t begin = value_begin(text, at + wanted.name.size());
    const Span word = shell_word(text, begin);
    if (wanted.removed) {
      std::size_t flag = at;
      while (flag > 0 && text[flag - 1] == ' ') --flag;
      const bool first = line_begin(text, at) == flag;  // its indentation stays
      for (std::size_t end : {at + wanted.name.size(), word.end}) {
        while (first && end < text.size() && text[end] == ' ') ++end;
        texts.push_back(without(text, {first ? at : flag, end}));
      }
    } else if (wanted.value) {
      replace_word(text, word, *wanted.value, 0, texts);
    }
  }
  if (wanted.removed || !places.empty()) return;
  for (const std::string& sibling : siblings) {
    for (const std::size_t at : occurrences(text, sibling)) {
      const std::string flag =
          wanted.value ? fmt::format("{} {} ", wanted.name, *wanted.value) : wanted.name + " ";
      texts.push_back(replaced(text, {at, at}, flag));
    }
  }
}

std::string leaf_of(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

std::string section_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

/// Span of a key's value behind `at`, its separator included in what is passed; nothing: no value follows.
std::optional<Span> keyed_value(std::string_view text, std::size_t at) {
  if (at < text.size() && (text[at] == '"' || text[at] == '\'')) ++at;
  at = text.find_first_not_of(kBlanks, at);
  if (at == std::string_view::npos || (text[at] != ':' && text[at] != '=')) return std::nullopt;
  at = text.find_first_not_of(kBlanks, at + 1);
  if (at == std::string_view::npos || text[at] == '\n') return std::nullopt;
  Span span{at, at};
  if (text[at] == '"' || text[at] == '\'') {
    span.end = text.find(text[at], at + 1);
    if (span.end == std::string_view::npos) return std::nullopt;
    ++span.end;
    return span;
  }
  while (span.end < text.size() &&
         std::string_view(",}\n\r").find(text[span.end]) == std::string_view::npos &&
         !text.substr(span.end).starts_with(" #"))
    ++span.end;
  while (span.end > span.begin && kBlanks.find(text[span.end - 1]) != std::string_view::npos) --span.end;
  return span;
}

bool is_plain(const std::string& value) {
  return value == "true" || value == "false" || value == "null" ||
         (!value.empty() && value.find_first_not_of("0123456789.eE+-") == std::string::npos) ||
         value.starts_with('[') || value.starts_with('{') || value.starts_with('"');
}

/// As the format writes it: a TOML or JSON text has quotes.
std::string written(const std::string& value, TextFormat format) {
  const bool quoted = (format == TextFormat::toml || format == TextFormat::json) && !is_plain(value);
  return quoted ? fmt::format("\"{}\"", value) : value;
}

void edit_keyed(std::string_view text, TextFormat format, const WantedArgument& wanted,
                const std::vector<std::string>& siblings, std::vector<std::string>& texts) {
  const std::string leaf = leaf_of(wanted.name);
  const std::string value = written(wanted.value.value_or("true"), format);
  bool present = false;
  for (const std::size_t at : occurrences(text, leaf)) {
    const std::optional<Span> span = keyed_value(text, at + leaf.size());
    if (!span) continue;
    present = true;
    if (wanted.removed) {
      texts.push_back(replaced(text, {line_begin(text, at), line_end(text, at)}, ""));
    } else {
      const char first = text[span->begin];
      if ((first == '"' || first == '\'') && !value.starts_with('"'))
        texts.push_back(replaced(text, *span, fmt::format("{}{}{}", first, value, first)));
      texts.push_back(replaced(text, *span, value));
    }
  }
  if (wanted.removed) return;
  const std::string section = section_of(wanted.name);
  const char* const separator = format == TextFormat::toml ? " = " : ": ";
  const std::string key = format == TextFormat::json ? fmt::format("\"{}\"", leaf) : leaf;
  const std::string line = key + separator + value;
  if (format == TextFormat::toml) {
    const std::string title = fmt::format("[{}]", section);
    const std::size_t at = text.find(title);
    if (at != std::string_view::npos)
      texts.push_back(replaced(text, {line_end(text, at), line_end(text, at)}, line + "\n"));
    const char* const gap = text.ends_with('\n') ? "\n" : "\n\n";
    if (!section.empty()) texts.push_back(fmt::format("{}{}{}\n{}\n", text, gap, title, line));
    return;
  }
  for (const std::string& sibling : siblings) {
    if (section_of(sibling) != section) continue;
    for (const std::size_t at : occurrences(text, leaf_of(sibling))) {
      if (!keyed_value(text, at + leaf_of(sibling).size())) continue;
      const std::size_t begin = line_begin(text, at);
      const std::string_view indent = indent_of(text, at);
      const std::size_t first = begin + indent.size();
      const bool own_line = first == at || (first + 1 == at && text[first] == '"');
      if (own_line) {
        texts.push_back(
            replaced(text, {begin, begin},
                     fmt::format("{}{}{}\n", indent, line, format == TextFormat::json ? "," : "")));
      } else {
        const std::size_t quoted = at > 0 && text[at - 1] == '"' ? at - 1 : at;
        texts.push_back(replaced(text, {quoted, quoted}, line + ", "));
      }
    }
  }
  if (!present && section.empty() && format == TextFormat::yaml)
    texts.push_back(fmt::format("{}{}{}\n", text, text.empty() || text.ends_with('\n') ? "" : "\n", line));
}

}  // namespace

std::vector<std::string> edited_texts(std::string_view text, TextFormat format,
                                      const WantedArgument& argument,
                                      const std::vector<std::string>& siblings) {
  std::vector<std::string> texts;
  if (format == TextFormat::shell) {
    edit_shell(text, argument, siblings, texts);
  } else {
    edit_keyed(text, format, argument, siblings, texts);
  }
  if (texts.size() > kMostCandidates) texts.resize(kMostCandidates);
  return texts;
}

}  // namespace plumbline
