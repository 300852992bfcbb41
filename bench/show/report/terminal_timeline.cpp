#include "bench/show/report/terminal_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "bench/show/text/figures.hpp"

namespace plumbline {
namespace {

constexpr int kDefaultWidth = 100;
constexpr int kLeastWidth = 40;
constexpr int kTail = 9;  // "  12.3 %" and a blank

struct Look {
  ActionType type;
  char letter;  // in one column
  int colour;   // of the 256 of xterm
  const char* meaning;
};
constexpr std::array kLooks = {
    Look{ActionType::forward, 'F', 117, "forward"},
    Look{ActionType::backward, 'B', 215, "backward"},
    Look{ActionType::backward_input, 'I', 222, "input gradient"},
    Look{ActionType::backward_weight, 'W', 183, "weight gradient"},
    Look{ActionType::teacher_forward, 'T', 116, "teacher forward"},
    Look{ActionType::vocab_forward, 'S', 218, "vocabulary forward"},
    Look{ActionType::vocab_backward, 'V', 210, "vocabulary backward"},
    Look{ActionType::input_forward, 'E', 151, "embedding"},
    Look{ActionType::input_backward, 'D', 150, "embedding gradient"},
    Look{ActionType::reduce_gradients, 'R', 147, "DP gradient reduction"},
    Look{ActionType::reduce_embedding, 'A', 189, "tied embedding reduction"},
    Look{ActionType::optimizer, 'O', 187, "optimizer"},
};

const Look* look_of(ActionType type) {
  const auto found =
      std::find_if(kLooks.begin(), kLooks.end(), [type](const Look& look) { return look.type == type; });
  return found == kLooks.end() ? nullptr : &*found;
}

/// Index of each stage among its rank's stages.
std::vector<int> chunk_of_stage(const Schedule& schedule) {
  std::vector<int> count(static_cast<std::size_t>(schedule.ranks), 0);
  std::vector<int> chunks;
  for (const int rank : schedule.rank_of_stage) chunks.push_back(count[static_cast<std::size_t>(rank)]++);
  return chunks;
}

/// For every column the event with most of its time, or -1.
std::vector<int> events_of_columns(const std::vector<Event>& events, std::size_t columns, double per_column) {
  std::vector<int> event_of(columns, -1);
  std::vector<double> share(columns, 0);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (look_of(events[i].action.type) == nullptr) continue;
    const double begin = events[i].start.value / per_column;
    const double end = events[i].end.value / per_column;
    for (auto column = static_cast<std::size_t>(begin); column < columns && static_cast<double>(column) < end;
         ++column) {
      const double inside =
          std::min(end, static_cast<double>(column) + 1) - std::max(begin, static_cast<double>(column));
      // A column that is idle for most of its time is shown as idle.
      if (inside <= share[column] || inside < 0.25) continue;
      share[column] = inside;
      event_of[column] = static_cast<int>(i);
    }
  }
  return event_of;
}

/// "F3----" in `width` columns.
std::string box(const Action& action, std::size_t width, bool later_chunk) {
  std::string text(1, look_of(action.type)->letter);
  if (later_chunk) text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  if (is_compute(action.type)) {
    const std::string number = std::to_string(action.microbatch);
    if (text.size() + number.size() <= width) text += number;
  }
  text.resize(width, '-');
  return text;
}

std::string line_of(const std::vector<Event>& events, const std::vector<int>& chunks, std::size_t columns,
                    double per_column, bool colour) {
  const std::vector<int> event_of = events_of_columns(events, columns, per_column);
  std::string line;
  for (std::size_t from = 0; from < columns;) {
    std::size_t to = from;
    while (to < columns && event_of[to] == event_of[from]) ++to;
    if (event_of[from] < 0) {
      line.append(to - from, '.');
    } else {
      const Action& action = events[static_cast<std::size_t>(event_of[from])].action;
      const bool later = action.stage < chunks.size() && chunks[action.stage] % 2 == 1;
      const std::string text = box(action, to - from, later);
      line += colour ? fmt::format("\033[48;5;{};30m{}\033[0m", look_of(action.type)->colour, text) : text;
    }
    from = to;
  }
  return line;
}

/// Round times below the lines, as many as fit.
std::string axis_of(std::size_t indent, std::size_t columns, double per_column, bool unit_times) {
  constexpr double kApart = 12;
  constexpr std::size_t kLabel = 11;
  const double step = round_step(kApart * per_column);
  std::string axis;
  for (int i = 0;; ++i) {
    const auto column = static_cast<std::size_t>(std::lround(i * step / per_column));
    if (column + kLabel > columns) return axis + '\n';
    axis.resize(indent + column, ' ');
    axis += '|';
    axis += unit_times ? fmt::format("{:.4g} f", i * step) : readable_time(i * step);
  }
}

std::string legend_of(const std::vector<NamedTrace>& traces, std::size_t width) {
  std::array<bool, kLooks.size()> used{};
  for (const NamedTrace& named : traces) {
    for (const auto& events : named.trace.ranks) {
      for (const Event& event : events) {
        const Look* look = look_of(event.action.type);
        if (look != nullptr) used[static_cast<std::size_t>(look - kLooks.data())] = true;
      }
    }
  }
  std::string legend;
  std::string line;
  const auto add = [&](const std::string& text) {
    if (!line.empty() && line.size() + 2 + text.size() > width) {
      legend += line;
      legend += '\n';
      line.clear();
    }
    if (!line.empty()) line += "  ";
    line += text;
  };
  for (std::size_t i = 0; i < kLooks.size(); ++i) {
    if (used[i]) add(fmt::format("{} {}", kLooks[i].letter, kLooks[i].meaning));
  }
  add(". idle");
  return legend + line + '\n';
}

}  // namespace

std::string terminal_timeline(const Schedule& schedule, const std::vector<NamedTrace>& traces,
                              const TimelineStyle& style) {
  const int width = style.width == 0 ? kDefaultWidth : style.width;
  const auto total = static_cast<std::size_t>(std::max(width, kLeastWidth));
  std::size_t ranks = 0;
  double span = 0;
  for (const NamedTrace& named : traces) {
    ranks = std::max(ranks, named.trace.ranks.size());
    span = std::max(span, named.trace.makespan().value);
  }
  if (ranks == 0 || !(span > 0) || !std::isfinite(span)) return "nothing happened\n";
  const std::size_t digits = std::to_string(ranks - 1).size();
  const std::size_t indent = 6 + digits;  // "rank 7 "
  const std::size_t columns = total - indent - kTail;
  const double per_column = span / static_cast<double>(columns);
  const std::vector<int> chunks = chunk_of_stage(schedule);
  std::string text;
  for (const NamedTrace& named : traces) {
    text += fmt::format("{:<{}}{:>{}}\n", named.name, total - kTail, "idle", kTail - 1);
    const double window = named.trace.pipeline_end().value;
    for (std::size_t rank = 0; rank < named.trace.ranks.size(); ++rank) {
      const double idle = window > 0 ? 1 - named.trace.busy(static_cast<int>(rank)).value / window : 0;
      text +=
          fmt::format("rank {:>{}} {} {:>5.1f} %\n", rank, digits,
                      line_of(named.trace.ranks[rank], chunks, columns, per_column, style.color), 100 * idle);
    }
  }
  return text + axis_of(indent, columns, per_column, style.unit_times) + legend_of(traces, total);
}

std::string terminal_timeline(const Schedule& schedule, const Trace& trace, const TimelineStyle& style) {
  return terminal_timeline(schedule, std::vector<NamedTrace>{{schedule.name, trace, nullptr}}, style);
}

}  // namespace plumbline
