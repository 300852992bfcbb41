#include "analysis/published/comparable_figures.hpp"

#include <fmt/format.h>

#include <vector>

namespace plumbline {

ComparableFigures comparable_figures(const RunConfig& config, const HardwareProfile& hardware,
                                     const Prediction& prediction) {
  ComparableFigures figures;
  if (hardware.accelerator() == nullptr) return figures;
  const std::vector<KnownRun>& known = known_runs();
  const RunKind kind = kind_of(config, hardware);
  const ComparableRuns steps(known, kind, "step_s");
  if (config.offload.optimizer_fraction == 0)
    figures.step = steps.interval();  // else a host's rate is a guess
  if (steps.nearest() != nullptr) figures.nearest = *steps.nearest();
  if (config.machine.own_step()) return figures;  // its tensors are exact
  figures.peak = ComparableRuns(known, kind, "peak_bytes").interval();
  figures.exceeding = chance_beyond(config, hardware, prediction.fit);
  return figures;
}

std::optional<double> chance_beyond(const RunConfig& config, const HardwareProfile& hardware,
                                    const Fit& fit) {
  if (hardware.accelerator() == nullptr || config.machine.own_step() || fit.limit.value == 0)
    return std::nullopt;
  const ComparableRuns peaks(known_runs(), kind_of(config, hardware), "peak_bytes");
  if (!peaks.interval()) return std::nullopt;
  return peaks.share_beyond(fit);
}

std::string comparable_line(const ComparableFigures& figures, Seconds step) {
  if (!figures.nearest) return "";
  if (const auto& interval = figures.step) {
    return fmt::format(
        "step: {:.4g} s; comparable runs {:.4g} to {:.4g} s (80 % interval of {} runs, {} sources)",
        step.value, interval->low * step.value, interval->high * step.value, interval->rows,
        interval->origins);
  }
  const KnownRun& nearest = *figures.nearest;
  return fmt::format(
      "step: {:.4g} s; no comparable published runs; the nearest ({}, {}, {} x {}) took {:.2f} x its "
      "prediction",
      step.value, nearest.origin, nearest.kind.software, nearest.kind.gpus, nearest.kind.hardware,
      nearest.ratio);
}

}  // namespace plumbline
