// Keys of Megatron-Bridge's classes, and those of a file for it.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace plumbline::test {

using SectionKey = std::pair<std::string, std::string>;

/// Sections and keys of tests/launch_files/bridge_fields.txt, which names source and commit, below `root`.
inline std::set<SectionKey> bridge_fields(const std::string& root) {
  std::set<SectionKey> known;
  std::ifstream lines(root + "/tests/launch_files/bridge_fields.txt");
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    if (!line.starts_with('#')) known.insert({line.substr(0, space), line.substr(space + 1)});
  }
  return known;
}

/// Sections and keys of an exported file; deeper lines are parts of a value.
inline std::set<SectionKey> written_keys(const std::string& text) {
  std::set<SectionKey> written;
  std::string section;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with('#')) continue;
    if (!line.starts_with(' ')) {
      section = line.substr(0, colon);
    } else if (!line.starts_with("   ")) {
      written.insert({section, line.substr(2, colon - 2)});
    }
  }
  return written;
}

}  // namespace plumbline::test
