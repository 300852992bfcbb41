// Predicted duration of measuring cells on this machine, before the first of them is measured.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/evaluate/cell_duration.hpp"
#include "core/config_text/matrix_config.hpp"

namespace plumbline {

/// The hardware that a configuration is predicted for; nullptr: none is known.
using HardwareOf = std::function<const HardwareProfile*(const RunConfig&)>;

/// The duration of one cell; nothing when it is not measured (invalid, or this build cannot execute it) or
/// the hardware is unknown.
std::optional<CellDuration> estimate(const MatrixCell& cell, const HardwareOf& hardware_of);

/// Estimates at the current machine speed. Without a calibrated profile, a probe of a second at the first
/// cell that asks.
class CellEstimates {
 public:
  CellEstimates() = default;
  /// For this hardware in place of this machine's.
  explicit CellEstimates(HardwareOf hardware_of) : hardware_of_(std::move(hardware_of)) {}

  std::optional<CellDuration> of(const MatrixCell& cell);
  /// Sum over all of them.
  Seconds sum(const std::vector<MatrixCell>& cells);

 private:
  const HardwareProfile* hardware_for(const RunConfig& config);

  HardwareOf hardware_of_;
  std::map<std::pair<Backend, std::string>, HardwareProfile> profiles_;
  std::optional<double> share_;  // of the processors that ranks get
};

}  // namespace plumbline
