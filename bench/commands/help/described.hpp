// Lists in which every entry is described: how the prose of the manual is written down in files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

struct Described {
  std::string section;  // the `## heading` above it
  std::string name;
  std::string meaning;
};

/// The entries of a Markdown list, in order: `- **name**: meaning`, going on in lines that are indented by
/// two blanks. All other lines are for readers of the file.
std::vector<Described> read_described(std::string_view markdown);

/// Cuts the first line, without its line break, off `text`.
std::string_view take_line(std::string_view& text);

}  // namespace plumbline
