#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/one_line.hpp"
#include "core/trace/trace_files.hpp"

namespace plumbline {
namespace {

constexpr double kRow = 22;
constexpr double kBox = 18;
constexpr double kLeft = 62;
constexpr double kTop = 60;
constexpr double kAxis = 34;     // below the lanes
constexpr double kLetter = 6.4;  // width of a letter of the legend
constexpr double kWidth = 1200;

struct Style {
  const char* name;  // in the legend
  int hue;
  ActionType type;
};
// One entry per drawn kind; the colours are distinguishable without seeing red and green.
constexpr Style kStyles[] = {{"Forward", 210, ActionType::forward},
                             {"Backward", 30, ActionType::backward},
                             {"Input gradient", 45, ActionType::backward_input},
                             {"Weight gradient", 280, ActionType::backward_weight},
                             {"Teacher forward", 180, ActionType::teacher_forward},
                             {"Vocabulary forward", 330, ActionType::vocab_forward},
                             {"Vocabulary backward", 0, ActionType::vocab_backward},
                             {"Embedding", 140, ActionType::input_forward},
                             {"Embedding gradient", 100, ActionType::input_backward},
                             {"DP gradient reduction", 230, ActionType::reduce_gradients},
                             {"Tied embedding reduction", 250, ActionType::reduce_embedding},
                             {"Optimizer", 60, ActionType::optimizer}};

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
        "<rect x=\"{:.0f}\" y=\"34\" width=\"14\" height=\"14\" fill=\"hsl({},65%,70%)\" stroke=\"#444\"/>"
        "<text x=\"{:.0f}\" y=\"45\">{}</text>\n",
        x, kStyles[i].hue, x + 18, kStyles[i].name);
    x += 32 + kLetter * static_cast<double>(std::string_view(kStyles[i].name).size());
  }
}

/// Ticks of the time axis below the lanes, in a unit that keeps them short.
void add_axis(double span, bool unit_times, double bottom, std::string& svg) {
  const double least = span / 10;
  double step = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (factor * step < least * (1 - 1e-9)) continue;
    step *= factor;
    break;
  }
  const auto [unit, name] = unit_times    ? std::pair(1.0, "forwards of one stage")
                            : span < 1e-3 ? std::pair(1e-6, "us")
                            : span < 1    ? std::pair(1e-3, "ms")
                                          : std::pair(1.0, "s");
  for (int i = 0; i * step <= span * (1 + 1e-9); ++i) {
    const double x = kLeft + kWidth * i * step / span;
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\" stroke=\"#888\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4:.6g}</text>\n",
        x, bottom, bottom + 4, bottom + 16, i * step / unit);
  }
  svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">time, {}</text>\n",
                     kLeft + kWidth / 2, bottom + 29, name);
}

/// A name of a file's schedule, as text of the picture.
std::string escaped_name(const std::string& name) {
  std::string text;
  for (const char c : printable(name)) {
    const std::string_view entity = c == '&' ? "&amp;" : c == '<' ? "&lt;" : "";
    text += entity.empty() ? std::string(1, c) : std::string(entity);
  }
  return text;
}

/// "zb-h1: 4 pipeline ranks, 8 micro-batches; bubble fraction 0.1304, bubble ratio 0.1500".
std::string title_of(const Schedule& schedule, const Trace& trace) {
  const Bubble bubble = bubble_of(trace);
  const std::string known =
      std::isfinite(bubble.ratio)
          ? fmt::format("; bubble fraction {:.4f}, bubble ratio {:.4f}", bubble.fraction, bubble.ratio)
          : "";
  return fmt::format("{}: {} pipeline ranks, {} micro-batches{}", escaped_name(schedule.name), schedule.ranks,
                     schedule.microbatches, known);
}

}  // namespace

std::string to_svg(const Schedule& schedule, const Trace& trace, bool unit_times) {
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
  const double bottom = kTop + static_cast<double>(trace.ranks.size()) * kRow;
  const double height = bottom + kAxis;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2:.0f}\" y=\"20\" font-size=\"13\" font-weight=\"bold\">{3}</text>\n",
      kLeft + kWidth + 28, height, kLeft, title_of(schedule, trace));
  add_legend(used, svg);
  add_axis(span, unit_times, bottom, svg);
  return svg + boxes + "</svg>\n";
}

}  // namespace plumbline
