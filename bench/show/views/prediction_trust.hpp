// Basis of a prediction's figures.
#pragma once

#include <string>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "core/base/json_keys.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Text: figures that are exact, calibrated or estimated, errors of published runs of the same software, and
/// peak memory of comparable runs.
std::string trust_text(const RunConfig& config, const HardwareProfile& hardware,
                       const Prediction& prediction);

/// As JSON: {"memory": "exact" | "estimated", "time": "calibrated" | "estimated", "published":
/// {"step_s": {"rows", "mape", "interval_rows", "interval_sources", "low", "high"}, "peak_bytes": the same,
/// "share_beyond_limit"}}, without unknown figures. Eight of ten comparable runs would lie between low and
/// high (comparable_figures.hpp). Jobs that are likely to meet a slow machine also have "slow_machines"
/// (analysis/stragglers/slow_machines.hpp).
OrderedJson trust_json(const RunConfig& config, const HardwareProfile& hardware,
                       const Prediction& prediction);

}  // namespace plumbline
