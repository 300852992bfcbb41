#include "bench/show/views/reinforcement/phase_timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "core/base/byte_text.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

constexpr double kPhasesWidth = 1000, kLabels = 90, kLaneTall = 34, kTitleTall = 34, kMemoryTall = 90;

const char* phase_color(PhaseKind kind) {
  switch (kind) {
    case PhaseKind::refit:
      return "#b8860b";
    case PhaseKind::rollout:
      return "#2e7d32";
    case PhaseKind::scoring:
      return "#5c6bc0";
    case PhaseKind::update:
      return "#1565c0";
  }
  return "#777";
}

/// Lanes of a phase: 0 the ranks that train, 1 those of the rollout alone. A refit is on both.
bool is_on_lane(const StepPhase& phase, int lane, bool pools) {
  if (pools && phase.kind == PhaseKind::refit) return true;
  return lane == (phase.on_rollout_ranks ? 1 : 0);
}

/// A rollout one step ahead, marked as the next step's.
std::string phase_label(const RunConfig& config, const StepPhase& phase) {
  const bool ahead = config.reinforcement.rollout.placement == RolloutPlacement::one_step_off;
  return phase.name + (ahead && phase.kind == PhaseKind::rollout ? " of the next step" : "");
}

/// Steps under each other, with the same scales of time and memory.
class PhasePicture {
 public:
  PhasePicture(const RunConfig& config, const std::vector<TracedStep>& steps, Bytes limit)
      : config_(config), steps_(steps), limit_(limit), pools_(config.reinforcement.rollout.own_ranks()) {
    most_ = limit;
    for (const TracedStep& step : steps) {
      longest_ = std::max(longest_, end_of(step));
      for (const StepPhase& phase : step.phases) most_ = std::max(most_, phase.needed);
    }
  }

  std::string draw() {
    const int lanes = pools_ ? 2 : 1;
    const double bars = kTitleTall + lanes * kLaneTall, tall = bars + kMemoryTall;
    const double height = static_cast<double>(steps_.size()) * tall + 30;
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"#fff\"/>\n",
        kPhasesWidth, height);
    double y = 0;
    for (const TracedStep& step : steps_) {
      text_ += fmt::format("<text x=\"{}\" y=\"{}\">{} step of {:.2f} s on {} ranks</text>\n", kLabels,
                           y + 18, step.name, end_of(step).value, config_.ranks());
      for (int lane = 0; lane < lanes; ++lane) draw_lane(step, lane, y + kTitleTall + lane * kLaneTall);
      draw_memory(step, y + bars + 10);
      y += tall;
    }
    draw_axis(height - 8);
    return text_ + "</svg>\n";
  }

 private:
  static Seconds end_of(const TracedStep& step) {
    Seconds end;
    for (const StepPhase& phase : step.phases) end = std::max(end, phase.start + phase.time);
    return end;
  }

  double x_of(Seconds time) const { return kLabels + (kPhasesWidth - kLabels - 10) * (time / longest_); }

  void draw_lane(const TracedStep& step, int lane, double y) {
    text_ += fmt::format("<text x=\"8\" y=\"{}\">{}</text>\n", y + 19,
                         lane == 1 ? "rollout"
                         : pools_  ? "training"
                                   : "ranks");
    for (const StepPhase& phase : step.phases) {
      if (!is_on_lane(phase, lane, pools_)) continue;
      const double x = x_of(phase.start), width = x_of(phase.start + phase.time) - x;
      const std::string label = phase_label(config_, phase);
      text_ += fmt::format(
          "<g><title>{0}: {1:.3f} s</title><rect x=\"{2:.2f}\" y=\"{3}\" width=\"{4:.2f}\" height=\"{5}\" "
          "fill=\"{6}\" stroke=\"#fff\"/>",
          label, phase.time.value, x, y, std::max(width, 0.5), kLaneTall - 6, phase_color(phase.kind));
      constexpr double kLetter = 6.5;
      if (width > kLetter * static_cast<double>(label.size()))
        text_ += fmt::format("<text x=\"{:.2f}\" y=\"{}\" fill=\"#fff\">{}</text>", x + 4, y + 19, label);
      text_ += "</g>\n";
    }
  }
  /// Memory of the ranks that train, by phase.
  void draw_memory(const TracedStep& step, double y) {
    text_ += fmt::format("<text x=\"8\" y=\"{}\">{}</text>\n", y + 14, brief_bytes(most_));
    for (const StepPhase& phase : step.phases) {
      if (phase.needed == Bytes{} || phase.on_rollout_ranks) continue;
      const double share = static_cast<double>(phase.needed.value) / static_cast<double>(most_.value);
      const double x = x_of(phase.start), tall = share * (kMemoryTall - 20);
      text_ += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"#cfd8dc\"><title>{}: {}"
          "</title></rect>\n",
          x, y + kMemoryTall - 20 - tall, std::max(x_of(phase.start + phase.time) - x, 0.5), tall, phase.name,
          brief_bytes(phase.needed));
    }
    if (limit_.value == 0) return;
    text_ += fmt::format("<path d=\"M{0} {1}H{2}\" stroke=\"#c62828\" stroke-dasharray=\"4\"/>\n", kLabels, y,
                         kPhasesWidth - 10);
  }
  void draw_axis(double y) {
    constexpr int kTicks = 5;
    for (int tick = 0; tick <= kTicks; ++tick) {
      const Seconds time = longest_ * (static_cast<double>(tick) / kTicks);
      text_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{:.3g} s</text>\n", x_of(time), y,
                           tick == kTicks ? "end" : "middle", time.value);
    }
  }

  const RunConfig& config_;
  const std::vector<TracedStep>& steps_;
  Bytes limit_, most_;
  Seconds longest_;
  bool pools_;
  std::string text_;
};

}  // namespace

std::string phases_svg(const RunConfig& config, const std::vector<TracedStep>& steps, Bytes limit) {
  return PhasePicture(config, steps, limit).draw();
}

std::string phases_trace(const RunConfig& config, const std::vector<TracedStep>& steps) {
  const bool pools = config.reinforcement.rollout.own_ranks();
  const auto microseconds = [](Seconds time) { return time.value * 1e6; };
  OrderedJson events = OrderedJson::array();
  for (std::size_t process = 0; process < steps.size(); ++process) {
    events.push_back(
        {{"name", "process_name"}, {"ph", "M"}, {"pid", process}, {"args", {{"name", steps[process].name}}}});
    for (int lane = 0; lane < (pools ? 2 : 1); ++lane) {
      events.push_back({{"name", "thread_name"},
                        {"ph", "M"},
                        {"pid", process},
                        {"tid", lane},
                        {"args", {{"name", lane == 1 ? "rollout" : "training"}}}});
      for (const StepPhase& phase : steps[process].phases) {
        if (!is_on_lane(phase, lane, pools)) continue;
        events.push_back({{"name", phase_label(config, phase)},
                          {"ph", "X"},
                          {"pid", process},
                          {"tid", lane},
                          {"ts", microseconds(phase.start)},
                          {"dur", microseconds(phase.time)}});
        if (phase.needed == Bytes{} || phase.on_rollout_ranks || lane == 1) continue;
        events.push_back({{"name", "device memory of a rank that trains"},
                          {"ph", "C"},
                          {"pid", process},
                          {"ts", microseconds(phase.start)},
                          {"args", {{"bytes", phase.needed.value}}}});
      }
    }
  }
  OrderedJson json;
  json["displayTimeUnit"] = "ms";
  json["traceEvents"] = std::move(events);
  return output_json(json, -1) + "\n";
}

void check_phases_trace(const RunConfig& config, const std::string& path) {
  if (!path.ends_with(".pftrace") && !path.ends_with(".perfetto-trace")) return;
  throw InputError(fmt::format(
      "--trace: found a Perfetto protobuf with task {}, expected a name that ends in .json, which "
      "ui.perfetto.dev opens, too; change it",
      task_name(config.generation.task)));
}

}  // namespace plumbline
