// Shapes of a configuration's operators, and times of single operators by the model that prices a step.
#pragma once

#include <memory>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/operators/operator_lookup.hpp"
#include "bench/record/operator_row.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Operators of the kinds in forward and backward of one micro-batch, each shape once, kinds in the given
/// order. `count`: its calls on the stage that has most of them. Left out: FP8, parts of attention, dropout.
/// Throws InputError without any.
std::vector<BenchedShape> shapes_of(const RunConfig& config, const std::vector<BenchedOperator>& kinds);

class OperatorPrediction {
 public:
  /// `hardware` must outlive it.
  explicit OperatorPrediction(const HardwareProfile& hardware);

  /// Fills predicted times, FLOPs and basis. Isolated: operands come from memory, burst clocks. Batched:
  /// operands are reused, sustained clocks where measured. Accelerators: forward passes in bf16 as
  /// `plumbline operator`.
  void predict(OperatorRow& row);

 private:
  bool look_up(OperatorRow& row);

  const HardwareProfile& hardware_;
  std::unique_ptr<silicon::OperatorLookup> lookup_;  // of an accelerator
};

}  // namespace plumbline
