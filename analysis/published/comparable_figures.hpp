// Comparable published runs beside a prediction.
#pragma once

#include <optional>
#include <string>

#include "analysis/predict/predict.hpp"
#include "analysis/published/comparable_runs.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// For an accelerator's constants alone: measured profiles have errors of their own.
struct ComparableFigures {
  std::optional<ErrorInterval> step;
  std::optional<ErrorInterval> peak;
  std::optional<KnownRun> nearest;  // by step time
  /// Share of comparable runs whose memory, in proportion, would exceed the limit.
  std::optional<double> exceeding;
};
ComparableFigures comparable_figures(const RunConfig& config, const HardwareProfile& hardware,
                                     const Prediction& prediction);

/// The `exceeding` alone: chance that a run of the configuration exceeds the limit of `fit`. Nothing for
/// tensors that are exact, without a limit, and without comparable runs.
std::optional<double> chance_beyond(const RunConfig& config, const HardwareProfile& hardware, const Fit& fit);

/// "step: 3.61 s; comparable runs 3.41 to 4.25 s (80 % of 96 runs, 7 sources)", or that there are none, with
/// the error of the nearest; empty without an accelerator.
std::string comparable_line(const ComparableFigures& figures, Seconds step);

}  // namespace plumbline
