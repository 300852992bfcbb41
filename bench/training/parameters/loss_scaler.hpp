// Scaling of the loss with fp16, whose small gradients would vanish (Micikevicius et al. 2018,
// arXiv:1710.03740).
#pragma once

#include "core/config/numerics_config.hpp"

namespace plumbline::training {

/// Between two steps, on every rank alike.
struct LossScaleState {
  double scale = 1;             // of the next step's loss
  std::int64_t growth = 0;      // steps without overflow since the last one with, or since the scale grew
  std::int64_t hysteresis = 0;  // overflows until the scale is halved
  std::int64_t skipped = 0;     // steps without an update so far
  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

/// Constant or dynamic, as in Megatron-LM (megatron/core/optimizer/grad_scaler.py).
class LossScaler {
 public:
  explicit LossScaler(const LossScaleConfig& config);

  /// Of the loss and the gradients of this step.
  double scale() const { return scale_; }
  const LossScaleState& state() const { return state_; }
  void start_step() { scale_ = state_.scale; }
  /// The end of a step, which made no update unless all gradients were `finite`.
  void end_step(bool finite);
  void resume(const LossScaleState& state) { state_ = state; }

 private:
  const LossScaleConfig config_;
  LossScaleState state_;
  double scale_;
};

}  // namespace plumbline::training
