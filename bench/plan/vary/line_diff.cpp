#include "bench/plan/vary/line_diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace plumbline {
namespace {

constexpr std::size_t kAround = 3;  // unchanged lines around a change
constexpr std::string_view kNoNewline = "\\ No newline at end of file\n";

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

/// Lines [first, first + removed) of one text became `added` lines from `second` on in the other.
struct Change {
  std::size_t first = 0;
  std::size_t removed = 0;
  std::size_t second = 0;
  std::size_t added = 0;
};

/// Few changes of a long text: after a change, both go on at the nearest equal line.
std::vector<Change> changes_of(const Lines& before, const Lines& after) {
  std::vector<Change> changes;
  std::size_t i = 0, j = 0;
  while (i < before.size() || j < after.size()) {
    if (i < before.size() && j < after.size() && before[i] == after[j]) {
      ++i;
      ++j;
      continue;
    }
    Change change{i, before.size() - i, j, after.size() - j};
    const std::size_t most = change.removed + change.added;
    for (std::size_t sum = 1; sum < most; ++sum) {
      bool found = false;
      for (std::size_t skip = 0; skip <= sum && !found; ++skip) {
        const std::size_t other = sum - skip;
        if (i + skip < before.size() && j + other < after.size() && before[i + skip] == after[j + other]) {
          change.removed = skip;
          change.added = other;
          found = true;
        }
      }
      if (found) break;
    }
    i += change.removed;
    j += change.added;
    changes.push_back(change);
  }
  return changes;
}

std::string shown_line(char mark, std::string_view line) {
  return fmt::format("{}{}{}", mark, line, line.ends_with('\n') ? "" : fmt::format("\n{}", kNoNewline));
}

std::string range_text(std::size_t begin, std::size_t count) {
  const std::size_t line = count == 0 ? begin : begin + 1;
  return count == 1 ? fmt::format("{}", line) : fmt::format("{},{}", line, count);
}

}  // namespace

std::string unified_diff(const std::string& name, std::string_view before, std::string_view after) {
  const Lines old_lines = lines_of(before);
  const Lines new_lines = lines_of(after);
  const std::vector<Change> changes = changes_of(old_lines, new_lines);
  if (changes.empty()) return "";
  std::string text = fmt::format("--- {}\n+++ {}\n", name, name);
  for (std::size_t first = 0; first < changes.size();) {
    std::size_t last = first;
    while (last + 1 < changes.size() &&
           changes[last + 1].first - changes[last].first - changes[last].removed <= 2 * kAround)
      ++last;
    const std::size_t before_change = std::min(kAround, changes[first].first);
    const std::size_t begin = changes[first].first - before_change;
    const std::size_t end = std::min(old_lines.size(), changes[last].first + changes[last].removed + kAround);
    std::string hunk;
    std::size_t at = begin, added = 0, removed = 0;
    for (std::size_t k = first; k <= last; ++k) {
      const Change& change = changes[k];
      for (; at < change.first; ++at) hunk += shown_line(' ', old_lines[at]);
      for (; at < change.first + change.removed; ++at) hunk += shown_line('-', old_lines[at]);
      for (std::size_t line = 0; line < change.added; ++line)
        hunk += shown_line('+', new_lines[change.second + line]);
      added += change.added;
      removed += change.removed;
    }
    for (; at < end; ++at) hunk += shown_line(' ', old_lines[at]);
    const std::size_t old_count = end - begin;
    text += fmt::format("@@ -{} +{} @@\n{}", range_text(begin, old_count),
                        range_text(changes[first].second - before_change, old_count - removed + added), hunk);
    first = last + 1;
  }
  return text;
}

}  // namespace plumbline
