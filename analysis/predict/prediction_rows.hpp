// Rows of the compatibility table that need the traits of software or hardware (core/config/compatibility.hpp
// has all others).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/software.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct PredictionRow {
  std::string_view key;
  std::string_view values;  // of the key, that need something
  std::string_view needed;
  bool searches = false;    // refused by searches alone
  bool frameworks = false;  // asked of other software than plumbline alone
  /// "KEY: found X with Y, expected Z", or nothing. `hardware` is given unless `searches`.
  std::optional<std::string> (*refusal)(const RunConfig& config, const Software& software,
                                        const HardwareProfile* hardware) = nullptr;
};

/// In the order in which they are asked.
std::span<const PredictionRow> prediction_rows();

/// Part of the configuration that the software or hardware cannot do, in one line: what was found, what to
/// change.
std::optional<std::string> why_unpredictable(const RunConfig& config, const HardwareProfile& hardware);
/// The same of searches alone, in which software tries no schedule that it does not have.
std::optional<std::string> why_unsearched(const RunConfig& config);
/// Lines about parts that the software or hardware lacks, and that are predicted as if it had them.
std::vector<std::string> predicted_as_if(const RunConfig& config, const HardwareProfile& hardware);

}  // namespace plumbline
