// The literature's formulas for a configuration, next to the result of the exact memory model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/memory/first_principles.hpp"
#include "analysis/memory/memory_model.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Model states of one pipeline rank (and any tensor and data rank of it).
struct StateComparison {
  int pipeline_rank = 0;
  std::int64_t parameters = 0;  // of the tensor rank, padding of ZeRO left out
  double formula = 0;           // bytes by zero_model_states
  Bytes exact;                  // parameters, gradients and optimizer, as allocated
};

/// Activations that one layer keeps of one micro-batch on one rank.
struct ActivationComparison {
  bool sequence_parallel = false;
  Recompute recompute = Recompute::none;
  bool configured = false;     // the technique of this configuration
  double formula = 0;          // bytes
  double formula_percent = 0;  // of tensor parallelism alone
  double exact = 0;            // bytes; with groups of recomputed layers the mean of a group
  double exact_percent = 0;
};

struct FormulaReport {
  int zero_stage = 0;
  int data_parallel = 1;
  StateBytes bytes;
  std::vector<StateComparison> states;
  bool classic = false;  // Korthikanti's layer (LayerNorm, GELU), else the modern one
  std::vector<ActivationComparison> activations;  // without sequence parallelism alone when t = 1
};

/// `memory` is the prediction for this configuration and schedule.
FormulaReport compare_with_formulas(const RunConfig& config, const Schedule& schedule,
                                    const MemoryPrediction& memory);

}  // namespace plumbline
