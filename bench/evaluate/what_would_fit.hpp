// What would have to change for a configuration to fit its memory budget.
#pragma once

#include <string>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/fit.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// One line: what the fullest rank needs, what it has, and the cheapest way out that the memory model finds.
/// In this order: up to three single keys that are enough by themselves; up to three pairs of keys; all
/// savings together, with more tensor and pipeline ranks, on as many ranks as now; on up to 1024 times as
/// many. When nothing fits, the least that was found. `fit` is the verdict on the configuration, `hardware` what it was given
/// for.
std::string what_would_fit(const RunConfig& config, const HardwareProfile& hardware, const Fit& fit);

}  // namespace plumbline
