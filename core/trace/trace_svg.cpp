#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/trace/trace_files.hpp"

namespace plumbline {
namespace {

constexpr double kRow = 22;
constexpr double kBox = 18;
constexpr double kLeft = 62;
constexpr double kTop = 34;
constexpr double kWidth = 1200;

struct Style {
  const char* name;
  int hue;
  ActionType type;
};
// One entry per drawn kind; the colours are distinguishable without seeing red and green.
constexpr Style kStyles[] = {{"F", 210, ActionType::forward},
                             {"B", 30, ActionType::backward},
                             {"I", 45, ActionType::backward_input},
                             {"W", 280, ActionType::backward_weight},
                             {"TF", 180, ActionType::teacher_forward},
                             {"S", 330, ActionType::vocab_forward},
                             {"T", 0, ActionType::vocab_backward},
                             {"IF", 140, ActionType::input_forward},
                             {"IB", 100, ActionType::input_backward},
                             {"ARG", 230, ActionType::reduce_gradients},
                             {"ARE", 250, ActionType::reduce_embedding},
                             {"OPT", 60, ActionType::optimizer}};

const Style* style_of(ActionType type) {
  for (const Style& style : kStyles) {
    if (style.type == type) return &style;
  }
  return nullptr;
}

/// Index of each stage among its rank's stages.
std::vector<int> chunk_of_stage(const Schedule& schedule) {
  std::vector<int> count(static_cast<std::size_t>(schedule.ranks), 0);
  std::vector<int> chunk;
  for (const int rank : schedule.rank_of_stage) chunk.push_back(count[static_cast<std::size_t>(rank)]++);
  return chunk;
}

void add_legend(const std::vector<bool>& used, std::string& svg) {
  double x = kLeft;
  for (std::size_t i = 0; i < std::size(kStyles); ++i) {
    if (!used[i]) continue;
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"8\" width=\"14\" height=\"14\" fill=\"hsl({},65%,70%)\" stroke=\"#444\"/>"
        "<text x=\"{:.0f}\" y=\"19\">{}</text>\n",
        x, kStyles[i].hue, x + 18, kStyles[i].name);
    x += 60;
  }
}

}  // namespace

std::string to_svg(const Schedule& schedule, const Trace& trace) {
  const double span = std::max(trace.makespan().value, 1e-300);
  const double scale = kWidth / span;
  const std::vector<int> chunks = chunk_of_stage(schedule);
  std::vector<bool> used(std::size(kStyles), false);
  std::string boxes;
  for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank) {
    const double y = kTop + static_cast<double>(rank) * kRow;
    boxes += fmt::format("<text x=\"4\" y=\"{:.1f}\">rank {}</text>\n", y + 13, rank);
    for (std::size_t i = 0; i < trace.ranks[rank].size(); ++i) {
      const Event& event = trace.ranks[rank][i];
      const Style* style = style_of(event.action.type);
      if (style == nullptr || event.end <= event.start) continue;
      used[static_cast<std::size_t>(style - kStyles)] = true;
      // An overlapped pair shares its time: the first above, the second below.
      const bool upper = event.action.overlaps_next;
      const bool lower = i > 0 && trace.ranks[rank][i - 1].action.overlaps_next;
      const double height = upper || lower ? kBox / 2 : kBox;
      const double top = lower ? y + kBox / 2 : y;
      const double x = kLeft + event.start.value * scale;
      const double width = (event.end - event.start).value * scale;
      const int light = 70 + 12 * (chunks[event.action.stage] % 3);
      boxes += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"hsl({},65%,{}%)\" "
          "stroke=\"#444\" stroke-width=\"0.5\"><title>{} {:.6g} to {:.6g} s</title></rect>",
          x, top, width, height, style->hue, light, to_string(event.action), event.start.value,
          event.end.value);
      const std::string label = std::to_string(event.action.microbatch);
      const double font = std::min(height - 2, 11.0);
      if (is_compute(event.action.type) && width > 0.6 * font * static_cast<double>(label.size())) {
        boxes += fmt::format(
            "<text x=\"{:.2f}\" y=\"{:.1f}\" font-size=\"{:.0f}\" text-anchor=\"middle\">{}</text>",
            x + width / 2, top + height / 2 + font * 0.36, font, label);
      }
      boxes += '\n';
    }
  }
  const double height = kTop + static_cast<double>(trace.ranks.size()) * kRow + 6;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kLeft + kWidth + 8, height);
  add_legend(used, svg);
  return svg + boxes + "</svg>\n";
}

}  // namespace plumbline
