// Speed and steadiness of a machine, by class of work.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/by_class.hpp"

namespace plumbline {

/// When and where a profile was calibrated, and how steady the machine was meanwhile.
struct Calibration {
  std::int64_t unix_s = 0;  // when it ended; 0: not known
  double seconds = 0;       // how long it took
  std::string host;
  std::string cpu;
  /// Drift of a class as a whole between the rounds of calibration, as a share, which averaging over figures
  /// does not remove.
  ByClass noise;
  std::int64_t figures = 0;  // measured
  std::int64_t seen_once =
      0;  // of them, those for which there was time for one look only: their spread is not known
  std::int64_t unsettled = 0;  // of them, those that were still apart when the time was up
  bool known() const { return unix_s > 0; }
};

}  // namespace plumbline
