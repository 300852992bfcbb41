// Changes that would make a configuration fit its memory budget.
#pragma once

#include <string>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/fit.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// One line: the need and the budget of the fullest rank, and the cheapest change that the memory model
/// finds, without what the software lacks. In this order: up to three single keys that are enough by
/// themselves; up to three pairs of keys, for a mixture of experts after single ones as well; all savings
/// together, with other tensor, pipeline and expert sizes, on as many ranks as now; on up to 1024 times as
/// many. When nothing fits, the smallest need that was found. `fit`: the verdict on the configuration, given
/// for `hardware`.
std::string what_would_fit(const RunConfig& config, const HardwareProfile& hardware, const Fit& fit);

}  // namespace plumbline
