// A training run between two probes of the machine's speed.
#pragma once

#include <optional>

#include "bench/measure/calibrate/probe.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Its constructor's arguments must outlive it.
class ProbedRun {
 public:
  /// Probes only where times are measured on the processor and the profile has something to compare with.
  ProbedRun(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware,
            Communicator& control);

  /// Collective.
  void before();
  void after();
  /// The prediction at the speed of the run that `measurement` is of; nothing without probes.
  std::optional<ProbedReport> report(const MeasurementReport& measurement) const;

 private:
  const RunConfig& config_;
  const Schedule& schedule_;
  const HardwareProfile& hardware_;
  calibration::Probe probe_;
  double seconds_ = 0;  // of one probe; 0: there are none
  ProbeLook before_, after_;
};

}  // namespace plumbline
