// Sensitivity of a configuration: how its step time follows each hardware constant, and the effect of every
// single change of the configuration.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/search/evaluator.hpp"

namespace plumbline {

struct Elasticity {
  std::string constant;  // as in analysis/hardware/*.json
  double value = 0;
  /// Relative change of the step time per relative change of the constant: -0.5 means that one percent more
  /// takes half a percent off. Central difference of two percent.
  double elasticity = 0;
};

struct ChangedKey {
  std::string what;  // "micro_batch_size 1 -> 2"
  Seconds step;
  Bytes peak;
  Fit fit;
};

struct Limits {
  Seconds step;
  Bytes peak;
  Fit fit;
  std::vector<Elasticity> hardware;  // largest effect first
  std::vector<ChangedKey>
      changes;  // those that fit, then the others, fastest first; only what why_invalid does not refuse
  /// Changes whose schedule has more than kMostVariedActions simulated actions; "hardware constants" if the
  /// configuration's own has.
  std::vector<std::string> not_varied;
};

/// Bounds a prediction to a tenth of a second or two; what_limits makes about fifty.
constexpr std::int64_t kMostVariedActions = 200'000;

/// Every figure is a prediction of its own. `hardware` is an accelerator of analysis/hardware. Throws
/// InputError for a configuration that is not valid, or has a teacher, a schedule or a distribution of layers
/// that no search tries.
Limits what_limits(const RunConfig& config, const HardwareProfile& hardware, const StepFor& make);

}  // namespace plumbline
