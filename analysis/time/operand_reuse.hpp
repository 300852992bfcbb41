// Data that a rank touches between two uses of an operand, which decides the cache it comes from.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/step/stage_shape.hpp"
#include "analysis/time/processor_contention.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

class OperandReuse {
 public:
  /// `turns`: how many ranks take turns on a processor, whose caches they share. All must outlive this.
  OperandReuse(const RunConfig& config, const Schedule& schedule, const std::vector<StageShape>& shapes,
               const std::vector<StageShape>& teachers, const HardwareProfile& hardware, double turns);

  /// `load` with the operands of an action of the student's or, for a TF, the teacher's stage. Between two
  /// uses of a gradient lies a whole micro-batch. Weights and activations are used in the forward and in the
  /// backward, with anything from nothing to all of it in between. In the first forward of a step they come
  /// from where the optimizer's update of all of the rank's parameters left them.
  Load of(const StageShape& shape, ActionType type, Load load) const;

  /// False on hardware where operands take the same time from everywhere.
  bool matters() const { return measured_; }

  Bytes in_turns(std::int64_t bytes) const;

 private:
  const RunConfig& config_;
  const Schedule& schedule_;
  const std::vector<StageShape>& shapes_;
  const std::vector<StageShape>& teachers_;
  bool measured_;         // else it makes no difference
  bool teacher_in_turn_;  // a rank computes for teacher and student in turn, not for one after the other
  double turns_;
};

}  // namespace plumbline
