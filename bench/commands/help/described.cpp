#include "bench/commands/help/described.hpp"

#include <algorithm>

namespace plumbline {

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::vector<Described> read_described(std::string_view markdown) {
  std::vector<Described> entries;
  std::string section;
  while (!markdown.empty()) {
    const std::string_view line = take_line(markdown);
    const std::size_t close = line.find("**: ");
    if (line.starts_with("## ")) {
      section = line.substr(3);
    } else if (line.starts_with("- **") && close != std::string_view::npos) {
      entries.push_back(
          {section, std::string(line.substr(4, close - 4)), std::string(line.substr(close + 4))});
    } else if (line.starts_with("  ") && !entries.empty()) {
      entries.back().meaning += line.substr(1);  // one of the two blanks separates the words
    }
  }
  return entries;
}

}  // namespace plumbline
