// Steps on devices that compute nothing, which take as long as their operators and messages are predicted to.
#pragma once

#include "analysis/predict/predict.hpp"
#include "tests/bench/training/support/training_support.hpp"

namespace plumbline::training {

/// Devices of an emulated H100 machine.
void set_emulated(RunConfig& config);
/// Layers of 16 heads and a width of 2048, large enough for a device to be busy.
void widen(ModelConfig& model, std::int64_t layers, std::int64_t ffn, std::int64_t kv_heads = 4);

/// The configuration's steps on its emulated devices. Collective.
TrainingResult emulate(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware);

struct EmulatedStep {
  Prediction predicted;
  Traffic traffic;  // predicted, of this rank
  TrainingResult result;

  /// Time of the first step over the predicted one.
  double time_ratio() const { return result.step_times.front() / predicted.time.step; }
};
/// Prediction and emulation. Collective.
EmulatedStep emulated_step(const RunConfig& config);
/// Expects the peaks of all ranks and the traffic of this one to be as predicted, and the time within
/// `tolerance`, a share of the predicted one.
void expect_as_predicted(const EmulatedStep& step, double tolerance);

}  // namespace plumbline::training
