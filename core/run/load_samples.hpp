// Other load of a machine during a step.
#pragma once

#include <array>
#include <vector>

#include "core/run/machine_load.hpp"
#include "core/run/step_observer.hpp"

namespace plumbline {

constexpr int kStepParts = 16;  // of equal length
using LoadOfParts = std::array<RankLoad, kStepParts>;

/// Readings of one rank's load over one step: where its actions end, and seldom enough to cost nothing.
class LoadSamples final : public StepObserver {
 public:
  void begin() { readings_.assign(1, read_load()); }
  void action_ends(const Action& action) override;
  void end() { readings_.push_back(read_load()); }

  /// From begin() to end().
  RankLoad whole() const { return difference(readings_.back(), readings_.front()); }
  /// The same in parts. Between two readings counters are taken to grow evenly.
  LoadOfParts parts() const;

 private:
  std::vector<LoadReading> readings_;
};

/// Counters at time `at`, interpolated linearly between the neighbouring readings. `readings`: in order of
/// time, at least two.
LoadReading reading_at(const std::vector<LoadReading>& readings, Seconds at);

}  // namespace plumbline
