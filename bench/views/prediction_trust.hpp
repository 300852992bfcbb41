// What the figures of a prediction rest on.
#pragma once

#include <string>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/record/record_json.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Which figures are exact, calibrated or estimated, and between what the published runs of the same software
/// would lie; some lines.
std::string trust_text(const RunConfig& config, const HardwareProfile& hardware,
                       const Prediction& prediction);

/// The same as {"memory": "exact" | "estimated", "time": "calibrated" | "estimated", "published": {"step_s":
/// {"rows", "mape", "p90", "low", "high"}, "peak_bytes": the same}}, without what is not known.
OrderedJson trust_json(const RunConfig& config, const HardwareProfile& hardware,
                       const Prediction& prediction);

}  // namespace plumbline
