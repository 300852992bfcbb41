#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/validate/validate.hpp"

namespace plumbline {

std::string grid_around(const Schedule& schedule, int rank, int position) {
  constexpr int kColumns = 4;  // to each side
  constexpr int kRows = 3;
  const int first = std::max(0, position - kColumns);
  const int last = position + kColumns;
  std::string text;
  for (int r = std::max(0, rank - kRows); r <= std::min(schedule.ranks - 1, rank + kRows); ++r) {
    const auto& actions = schedule.actions[static_cast<std::size_t>(r)];
    text += fmt::format("rank {:>3} |{}", r, first > 0 ? " …" : "");
    for (int i = first; i <= last; ++i) {
      const bool inside = i < static_cast<int>(actions.size());
      const std::string name = inside ? to_string(actions[static_cast<std::size_t>(i)]) : "";
      const bool marked = r == rank && i == position;
      if (inside || marked) text += fmt::format(" {:^9}", marked ? ">" + (inside ? name : "-") + "<" : name);
    }
    text += last + 1 < static_cast<int>(actions.size()) ? " …\n" : "\n";
  }
  return text;
}

}  // namespace plumbline
