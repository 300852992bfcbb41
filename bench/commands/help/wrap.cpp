#include "bench/commands/help/wrap.hpp"

#include <algorithm>

namespace plumbline {

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string all;
  std::string line;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t from = text.find_first_not_of(" \n", at);
    if (from == std::string_view::npos) break;
    const std::size_t to = std::min(text.find_first_of(" \n", from), text.size());
    const std::string_view word = text.substr(from, to - from);
    if (!line.empty() && indent + columns_of(line) + 1 + columns_of(word) > width) {
      all += margin + line + '\n';
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
    at = to;
  }
  return all + margin + line + '\n';
}

}  // namespace plumbline
