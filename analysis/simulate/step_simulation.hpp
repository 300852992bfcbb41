// A step that is simulated under many costs: its plan is made once, and its repetitions are extrapolated.
#pragma once

#include <memory>

#include "analysis/simulate/steady_state.hpp"
#include "analysis/simulate/step_summary.hpp"

namespace plumbline {

class StepSimulation {
 public:
  /// `step` must outlive it.
  explicit StepSimulation(const RepeatedSchedule& step) : step_(step) {}

  /// Bitwise the result of simulate(). Copies of the period are simulated until each is shifted by the same
  /// amount relative to the one before; further ones follow from that. Throws InputError like simulate(), and
  /// when a step does not become steady within the simulated actions.
  StepSummary run(const Costs& costs);
  /// simulate(), of a step that is written down whole.
  Trace trace(const Costs& costs);

  const RepeatedSchedule& step() const { return step_; }
  /// Number of simulated copies of the period.
  std::int64_t simulated_copies() const;

 private:
  struct Prepared;
  Prepared& prepare(std::int64_t copies, const Costs& costs);

  const RepeatedSchedule& step_;
  std::shared_ptr<Prepared> prepared_;
  SweepTimes times_;
};

}  // namespace plumbline
