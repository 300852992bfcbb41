// Violations of the rules about #include lines in a source tree: one line of text each.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/rules/include_graph.hpp"

namespace plumbline {

/// Dependencies between folders that there must never be. Regular expressions of both names.
struct Rule {
  std::string from;
  std::string to;
  std::string why;
};
/// #include lines that the table does not allow, or that name a file that is not there. Those of tests are
/// free.
std::vector<std::string> not_allowed(const std::vector<Include>& includes, const Arrows& allowed);
/// Arrows of the table that no #include line needs.
std::vector<std::string> unused(const Arrows& allowed, const Arrows& present);
/// Arrows that a rule forbids.
std::vector<std::string> forbidden(const Arrows& arrows, const std::vector<Rule>& rules);
/// Folders with more than `most` sources, those of their folders not counted.
std::vector<std::string> crowded(const SourceTexts& sources, std::size_t most);

/// A file for itself, for arrows_of().
std::string itself(const std::string& file);

}  // namespace plumbline
