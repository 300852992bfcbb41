#include "bench/show/text/wrap.hpp"

#include <algorithm>
#include <cstdio>

#include "bench/show/text/progress.hpp"

namespace plumbline {

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.substr(at, 2) == "\033[")
      at = std::min(text.find('m', at), text.size() - 1);
    else if ((static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U)
      ++columns;
  }
  return columns;
}

namespace {

/// As wrapped(), with another indent of the first line.
std::string wrapped_words(std::string_view text, std::size_t width, std::size_t first, std::size_t indent) {
  std::string margin(first, ' ');
  std::string all;
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t from = text.find_first_not_of(" \n", at);
    if (from == std::string_view::npos) break;
    const std::size_t to = std::min(text.find_first_of(" \n", from), text.size());
    const std::string_view word = text.substr(from, to - from);
    if (!line.empty() && margin.size() + columns_of(line) + 1 + columns_of(word) > width) {
      all += margin + line + '\n';
      margin.assign(indent, ' ');
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    at = to;
  }
  return all + margin + line + '\n';
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  return wrapped_words(text, width, indent, indent);
}

std::string within(std::string_view lines, int width) {
  constexpr std::size_t kFurther = 4;
  if (width <= 0) return std::string(lines);
  std::string text;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (columns_of(line) <= static_cast<std::size_t>(width)) {
      text += std::string(line) + '\n';
      continue;
    }
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    text += wrapped_words(line, static_cast<std::size_t>(width), indent, indent + kFurther);
  }
  return text;
}

std::string within_terminal(std::string_view lines) {
  return within(lines, terminal_width(stdout));
}

}  // namespace plumbline
