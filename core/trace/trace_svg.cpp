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
constexpr double kHeading = 22;  // above the lanes of a named trace
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

/// Seconds of a unit that keeps numbers up to `span` short, and its name.
std::pair<double, const char*> axis_unit(double span) {
  if (span < 1e-3) return {1e-6, "us"};
  return span < 1 ? std::pair(1e-3, "ms") : std::pair(1.0, "s");
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
  const auto [unit, name] = unit_times ? std::pair(1.0, "forwards of one stage") : axis_unit(span);
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

/// "; bubble fraction 0.1304, bubble ratio 0.1500"; empty without computation.
std::string bubble_text(const Trace& trace) {
  const Bubble bubble = bubble_of(trace);
  return std::isfinite(bubble.ratio)
             ? fmt::format("; bubble fraction {:.4f}, bubble ratio {:.4f}", bubble.fraction, bubble.ratio)
             : "";
}

/// "zb-h1: 4 pipeline ranks, 8 micro-batches".
std::string title_of(const Schedule& schedule) {
  return fmt::format("{}: {} pipeline ranks, {} micro-batches", escaped_name(schedule.name), schedule.ranks,
                     schedule.microbatches);
}

/// Lanes of ranks, one trace below the other on one time axis.
class LanePicture {
 public:
  LanePicture(const Schedule& schedule, double span, bool unit_times)
      : span_(std::max(span, 1e-300)), unit_times_(unit_times), chunks_(chunk_of_stage(schedule)) {}

  void add_heading(const std::string& text) {
    bottom_ += kHeading;
    boxes_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" font-weight=\"bold\">{}</text>\n", kLeft,
                          bottom_ - 6, text);
  }

  void add_lanes(const Trace& trace) {
    for (std::size_t rank = 0; rank < trace.ranks.size(); ++rank, bottom_ += kRow) {
      boxes_ += fmt::format("<text x=\"4\" y=\"{:.1f}\">rank {}</text>\n", bottom_ + 13, rank);
      const std::vector<Event>& events = trace.ranks[rank];
      for (std::size_t i = 0; i < events.size(); ++i) {
        // An overlapped pair shares its time: the first above, the second below.
        const bool lower = i > 0 && events[i - 1].action.overlaps_next;
        add_box(events[i], events[i].action.overlaps_next, lower);
      }
    }
  }

  std::string finish(const std::string& title) const {
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"{2:.0f}\" y=\"20\" font-size=\"13\" font-weight=\"bold\">{3}</text>\n",
        kLeft + kWidth + 28, bottom_ + kAxis, kLeft, title);
    add_legend(used_, svg);
    add_axis(span_, unit_times_, bottom_, svg);
    return svg + boxes_ + "</svg>\n";
  }

 private:
  void add_box(const Event& event, bool upper, bool lower) {
    const Style* style = style_of(event.action.type);
    if (style == nullptr || event.end <= event.start) return;
    used_[static_cast<std::size_t>(style - kStyles)] = true;
    const double scale = kWidth / span_;
    const double height = upper || lower ? kBox / 2 : kBox;
    const double top = lower ? bottom_ + kBox / 2 : bottom_;
    const double x = kLeft + event.start.value * scale;
    const double width = (event.end - event.start).value * scale;
    const int light = 70 + 12 * (chunks_[event.action.stage] % 3);
    boxes_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"hsl({},65%,{}%)\" "
        "stroke=\"#444\" stroke-width=\"0.5\"><title>{} {:.6g} to {:.6g} s</title></rect>",
        x, top, width, height, style->hue, light, to_string(event.action), event.start.value,
        event.end.value);
    const std::string label = std::to_string(event.action.microbatch);
    const double font = std::min(height - 2, 11.0);
    if (is_compute(event.action.type) && width > 0.6 * font * static_cast<double>(label.size())) {
      boxes_ +=
          fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\" font-size=\"{:.0f}\" text-anchor=\"middle\">{}</text>",
                      x + width / 2, top + height / 2 + font * 0.36, font, label);
    }
    boxes_ += '\n';
  }

  double span_;
  bool unit_times_;
  std::vector<int> chunks_;
  std::vector<bool> used_ = std::vector<bool>(std::size(kStyles), false);
  double bottom_ = kTop;
  std::string boxes_;
};

}  // namespace

std::string to_svg(const Schedule& schedule, const Trace& trace, bool unit_times) {
  LanePicture picture(schedule, trace.makespan().value, unit_times);
  picture.add_lanes(trace);
  return picture.finish(title_of(schedule) + bubble_text(trace));
}

std::string to_svg(const Schedule& schedule, const std::vector<NamedTrace>& traces) {
  double span = 0;
  for (const NamedTrace& named : traces) span = std::max(span, named.trace.makespan().value);
  LanePicture picture(schedule, span, false);
  const auto [unit, name] = axis_unit(span);
  for (const NamedTrace& named : traces) {
    picture.add_heading(fmt::format("{}: {:.4g} {}{}", escaped_name(named.name),
                                    named.trace.makespan().value / unit, name, bubble_text(named.trace)));
    picture.add_lanes(named.trace);
  }
  return picture.finish(title_of(schedule));
}

}  // namespace plumbline
