#include "bench/training/parameters/loss_scaler.hpp"

#include <algorithm>

namespace plumbline::training {

LossScaler::LossScaler(const LossScaleConfig& config)
    : config_(config),
      state_{config.constant.value_or(config.initial), 0, config.hysteresis, 0},
      scale_(state_.scale) {}

void LossScaler::end_step(bool finite) {
  if (!finite) ++state_.skipped;
  if (config_.constant) return;
  if (!finite) {
    state_.growth = 0;
    if (--state_.hysteresis <= 0) state_.scale = std::max(state_.scale / 2, config_.least);
  } else if (++state_.growth == config_.window) {
    state_.growth = 0;
    state_.hysteresis = config_.hysteresis;
    state_.scale *= 2;
  }
}

}  // namespace plumbline::training
