#include "core/launch_files/shell/shell_parameter.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "core/launch_files/shell/shell_pattern.hpp"

namespace plumbline {
namespace {

constexpr std::size_t kLongestValue = 256;  // matches are tried at all lengths
constexpr std::string_view kOperators[] = {"##", "#", "%%", "%", "//", "/#", "/%", "/", "^^", "^", ",,", ","};

/// Length of the part that matches: the prefix or suffix of `value`, the longest or the shortest.
std::optional<std::size_t> matching(std::string_view value, const std::string& pattern, bool front,
                                    bool longest) {
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t length = longest ? value.size() - i : i;
    const Truth truth =
        matches_pattern(front ? value.substr(0, length) : value.substr(value.size() - length), pattern);
    if (truth == Truth::unknown) return std::nullopt;
    if (truth == Truth::yes) return length;
  }
  return std::string_view::npos;
}

std::optional<std::string> trimmed(std::string_view value, const ShellOperator& by) {
  const bool front = by.sign[0] == '#';
  const auto length = matching(value, by.pattern, front, by.sign.size() == 2);
  if (!length) return std::nullopt;
  if (*length == std::string_view::npos) return std::string(value);
  return std::string(front ? value.substr(*length) : value.substr(0, value.size() - *length));
}

std::optional<std::string> replaced(std::string_view value, const ShellOperator& by) {
  if (by.with.find('&') != std::string::npos || by.with.find('\\') != std::string::npos) return std::nullopt;
  if (by.sign == "/#" || by.sign == "/%") {
    const bool front = by.sign == "/#";
    const auto length = matching(value, by.pattern, front, true);
    if (!length) return std::nullopt;
    if (*length == std::string_view::npos) return std::string(value);
    return front ? by.with + std::string(value.substr(*length))
                 : std::string(value.substr(0, value.size() - *length)) + by.with;
  }
  if (by.pattern.empty()) return std::string(value);
  std::string result;
  bool goes_on = true;
  while (!value.empty()) {
    const auto length = goes_on ? matching(value, by.pattern, true, true) : std::string_view::npos;
    if (!length) return std::nullopt;
    if (*length == std::string_view::npos || *length == 0) {
      result += value[0];
      value.remove_prefix(1);
      continue;
    }
    result += by.with;
    value.remove_prefix(*length);
    goes_on = by.sign == "//";
  }
  return result;
}

std::optional<std::string> cased(std::string_view value, const ShellOperator& by) {
  if (!by.pattern.empty()) return std::nullopt;
  std::string result(value);
  const std::size_t count = by.sign.size() == 2 ? result.size() : result.empty() ? 0 : 1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto c = static_cast<unsigned char>(result[i]);
    if (c >= 0x80) return std::nullopt;
    result[i] = static_cast<char>(by.sign[0] == '^' ? std::toupper(c) : std::tolower(c));
  }
  return result;
}

}  // namespace

bool has_shell_braces(std::string_view text) {
  char quote = 0;
  int open = 0;
  bool several = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == '$' && i + 1 < text.size() && text[i + 1] == '{') {
      const std::size_t end = text.find('}', i);
      if (end == std::string_view::npos) return true;
      i = end;
    } else if (c == '{') {
      ++open;
    } else if (open > 0 && (c == ',' || text.substr(i).starts_with(".."))) {
      several = true;
    } else if (c == '}' && several) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> shell_braces(std::string_view text) {
  constexpr std::int64_t kMostWords = 1000;
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_-+=./:,%@{}").find(c) != std::string_view::npos;
  };
  const std::size_t open = text.find('{');
  const std::size_t close = text.find('}');
  if (close == std::string_view::npos || open > close || text.rfind('{') != open ||
      text.rfind('}') != close || !std::all_of(text.begin(), text.end(), plain))
    return {};
  const std::string_view inside = text.substr(open + 1, close - open - 1);
  std::vector<std::string> words;
  const auto add = [&](std::string_view part) {
    words.push_back(std::string(text.substr(0, open)) + std::string(part) +
                    std::string(text.substr(close + 1)));
  };
  if (inside.find(',') != std::string_view::npos) {
    for (std::size_t at = 0; at <= inside.size();) {
      const std::size_t end = std::min(inside.find(',', at), inside.size());
      add(inside.substr(at, end - at));
      at = end + 1;
    }
    return words;
  }
  const std::size_t dots = inside.find("..");
  std::int64_t ends[2] = {};
  const std::string_view texts[2] = {inside.substr(0, dots),
                                     dots == std::string_view::npos ? "" : inside.substr(dots + 2)};
  for (int i = 0; i < 2; ++i) {
    const char* const stop = texts[i].data() + texts[i].size();
    const auto [end, error] = std::from_chars(texts[i].data(), stop, ends[i]);
    const bool padded = texts[i].size() > 1 && texts[i][0] == '0';
    if (error != std::errc() || end != stop || padded || std::abs(ends[i]) > kMostWords) return {};
  }
  const std::int64_t step = ends[0] <= ends[1] ? 1 : -1;
  for (std::int64_t i = ends[0]; i != ends[1] + step; i += step) add(std::to_string(i));
  return words;
}

std::string_view shell_operator_sign(std::string_view text) {
  for (const std::string_view sign : kOperators)
    if (text.starts_with(sign)) return sign;
  return "";
}

std::optional<std::string> shell_operated(std::string_view value, const ShellOperator& by) {
  if (value.size() > kLongestValue || by.pattern.size() > kLongestValue || by.sign.empty())
    return std::nullopt;
  if (by.sign[0] == '#' || by.sign[0] == '%') return trimmed(value, by);
  return by.sign[0] == '/' ? replaced(value, by) : cased(value, by);
}

}  // namespace plumbline
