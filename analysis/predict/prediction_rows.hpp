// Rows of the compatibility table that need the traits of software or hardware (core/config/compatibility.hpp
// has all others).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/prediction_row.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// In the order in which they are asked.
std::span<const PredictionRow> prediction_rows();

/// Part of the configuration that the software or hardware cannot do, in one line: what was found, what to
/// change.
std::optional<std::string> why_unpredictable(const RunConfig& config, const HardwareProfile& hardware);
/// The same of searches alone, in which software tries no schedule that it does not have.
std::optional<std::string> why_unsearched(const RunConfig& config);
/// Reason why no advice for `given` proposes `changed`: a part that the software lacks, and that `given` does
/// without.
std::optional<std::string> why_not_advised(const RunConfig& given, const RunConfig& changed);
/// Lines about parts that the software or hardware lacks, and that are predicted as if it had them.
std::vector<std::string> predicted_as_if(const RunConfig& config, const HardwareProfile& hardware);

}  // namespace plumbline
