#include "tests/rules/include_checks.hpp"

#include <fmt/format.h>

#include <map>
#include <regex>

namespace plumbline {
namespace {

bool is_test(const std::string& name) {
  return name == "tests" || name.starts_with("tests/");
}

}  // namespace

std::vector<std::string> not_allowed(const std::vector<Include>& includes, const Arrows& allowed) {
  std::vector<std::string> found;
  for (const Include& include : includes) {
    const std::string from = room_of(include.file);
    const std::string to = room_of(include.target);
    const auto row = allowed.find(from);
    if (!include.found) {
      found.push_back(fmt::format("{}:{}: there is no {}", include.file, include.line, include.target));
    } else if (from != to && !is_test(from) && (row == allowed.end() || !row->second.contains(to))) {
      found.push_back(fmt::format("{}:{}: includes {}: the table has no arrow from {} to {}", include.file,
                                  include.line, include.target, from, to));
    }
  }
  return found;
}

std::vector<std::string> unused(const Arrows& allowed, const Arrows& present) {
  std::vector<std::string> found;
  for (const auto& [from, targets] : allowed) {
    const auto row = present.find(from);
    for (const std::string& to : targets) {
      if (row == present.end() || !row->second.contains(to)) {
        found.push_back(fmt::format("nothing in {} includes anything of {}: take the arrow out", from, to));
      }
    }
  }
  return found;
}

std::vector<std::string> forbidden(const Arrows& arrows, const std::vector<Rule>& rules) {
  std::vector<std::string> found;
  for (const Rule& rule : rules) {
    const std::regex from_pattern(rule.from);
    const std::regex to_pattern(rule.to);
    for (const auto& [from, targets] : arrows) {
      if (!std::regex_match(from, from_pattern)) continue;
      for (const std::string& to : targets) {
        if (std::regex_match(to, to_pattern)) {
          found.push_back(fmt::format("{} includes {}: {}", from, to, rule.why));
        }
      }
    }
  }
  return found;
}

std::vector<std::string> crowded(const SourceTexts& sources, std::size_t most) {
  std::map<std::string, std::size_t> counts;
  for (const auto& source : sources) ++counts[room_of(source.first)];
  std::vector<std::string> found;
  for (const auto& [folder, count] : counts) {
    if (count > most) found.push_back(fmt::format("{}: {} files, at most {} fit", folder, count, most));
  }
  return found;
}

std::string itself(const std::string& file) {
  return file;
}

}  // namespace plumbline
