#include "core/launch_files/shell/shell_pattern.hpp"

#include <algorithm>
#include <cstddef>

#include "core/launch_files/shell/shell_unknown.hpp"

namespace plumbline {
namespace {

/// Length of a set of characters such as [ab0-9] or [!x]; 0: it has others than letters, digits and signs.
std::size_t set_length(std::string_view text) {
  const std::size_t end = text.find(']', text.size() > 1 && (text[1] == '!' || text[1] == '^') ? 3 : 2);
  if (end == std::string_view::npos ||
      text.substr(1, end - 1).find_first_of("[]\\") != std::string_view::npos)
    return 0;
  for (std::size_t i = 2; i + 1 < end; ++i) {  // ranges of one kind of characters, as in every locale
    if (text[i] != '-') continue;
    const auto kind = [](char c) {
      return c >= '0' && c <= '9' ? 1 : c >= 'a' && c <= 'z' ? 2 : c >= 'A' && c <= 'Z' ? 3 : 0;
    };
    if (kind(text[i - 1]) == 0 || kind(text[i - 1]) != kind(text[i + 1])) return 0;
  }
  return end + 1;
}

bool in_set(std::string_view set, char c) {
  set = set.substr(1, set.size() - 2);
  const bool others = set.starts_with('!') || set.starts_with('^');
  if (others) set.remove_prefix(1);
  bool in = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      in = in || (c >= set[i] && c <= set[i + 2]);
      i += 2;
    } else {
      in = in || c == set[i];
    }
  }
  return in != others;
}

}  // namespace

Truth matches_pattern(std::string_view text, std::string_view pattern) {
  const auto plain = [](unsigned char c) { return c < 0x80 && c > UnknownParts::kEnd; };
  if (!std::ranges::all_of(text, plain) || !std::ranges::all_of(pattern, plain)) return Truth::unknown;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '\\') {
      ++i;
    } else if (pattern[i] == '[') {
      const std::size_t length = set_length(pattern.substr(i));
      if (length == 0) return Truth::unknown;
      i += length - 1;
    } else if (pattern[i] == '(') {
      return Truth::unknown;
    }
  }
  std::size_t t = 0;
  std::size_t p = 0;
  std::size_t star = std::string_view::npos;
  std::size_t mark = 0;
  while (t < text.size()) {
    const bool escaped = p + 1 < pattern.size() && pattern[p] == '\\';
    const std::size_t at = escaped ? p + 1 : p;
    const std::size_t set =
        !escaped && p < pattern.size() && pattern[p] == '[' ? set_length(pattern.substr(p)) : 0;
    if (!escaped && p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (set > 0 && in_set(pattern.substr(p, set), text[t])) {
      p += set;
      ++t;
    } else if (set == 0 && at < pattern.size() &&
               (pattern[at] == text[t] || (!escaped && pattern[at] == '?'))) {
      p = at + 1;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return Truth::no;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return truth_of(p == pattern.size());
}

}  // namespace plumbline
