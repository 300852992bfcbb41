// A step that is simulated under many costs: its plan is made once, and what repeats itself is continued
// without simulating it.
#pragma once

#include <memory>

#include "analysis/simulate/steady_state.hpp"
#include "analysis/simulate/step_summary.hpp"

namespace plumbline {

class StepSimulation {
 public:
  /// `step` must outlive it.
  explicit StepSimulation(const RepeatedSchedule& step) : step_(step) {}

  /// What simulate() would find, bitwise. As many copies of the period are simulated as it takes until every one
  /// is as much later than the one before; further ones follow from that. Throws InputError like simulate(),
  /// and when a step does not become steady in so many actions as are simulated.
  StepSummary run(const Costs& costs);
  /// simulate(), of a step that is written down whole.
  Trace trace(const Costs& costs);

  const RepeatedSchedule& step() const { return step_; }
  /// How many copies of the period are simulated.
  std::int64_t simulated_copies() const;

 private:
  struct Prepared;
  Prepared& prepare(std::int64_t copies, const Costs& costs);

  const RepeatedSchedule& step_;
  std::shared_ptr<Prepared> prepared_;
  SweepTimes times_;
};

}  // namespace plumbline
