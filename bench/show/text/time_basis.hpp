// Basis of a prediction's times, in the same words everywhere.
#pragma once

#include <cstdint>
#include <string_view>

#include "bench/record/record.hpp"

namespace plumbline {

/// Measured operators and messages of the machine, an accelerator's constants, or generic rates.
enum class TimeBasis : std::uint8_t { calibrated, estimated, guess };

constexpr TimeBasis time_basis(bool guessed, bool estimated) {
  return guessed ? TimeBasis::guess : estimated ? TimeBasis::estimated : TimeBasis::calibrated;
}
inline TimeBasis time_basis(const PredictionReport& report) {
  return time_basis(report.times_guessed, report.times_estimated);
}
/// "calibrated", "estimated" or "guess".
constexpr std::string_view name_of(TimeBasis basis) {
  constexpr std::string_view kNames[] = {"calibrated", "estimated", "guess"};
  return kNames[static_cast<std::size_t>(basis)];
}

}  // namespace plumbline
