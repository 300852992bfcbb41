// The verdict on a configuration's memory, in one of four words, with the chance that it does not fit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/fit.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

enum class Verdict { fits, tight, does_not_fit, unknown };
/// "fits", "tight", "does not fit", "unknown".
std::string_view name_of(Verdict verdict);

struct MemoryVerdict {
  /// fits: so would at least 95 % of comparable runs. tight: the predicted peak alone is within the limit.
  /// unknown: no limit is known.
  Verdict word = Verdict::unknown;
  /// Share of comparable published runs that would exceed the limit; nothing: the peak is exact, or no run is
  /// comparable.
  std::optional<double> chance;

  /// "tight (23 %)", else the word alone.
  std::string text() const;
};

/// Largest chance of a configuration that fits. Among published peaks 0.6 % exceed a limit within it; with
/// whole sources left out, 3.2 % (tests/analysis/published/verdict_test.cpp).
inline constexpr double kSurelyFits = 0.05;

MemoryVerdict verdict_of(const Fit& fit, std::optional<double> chance);
/// Verdict with the chance of the configuration.
MemoryVerdict verdict_of(const RunConfig& config, const HardwareProfile& hardware, const Fit& fit);

}  // namespace plumbline
