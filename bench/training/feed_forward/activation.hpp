// The activation of a feed-forward layer, with or without a gate.
#pragma once

#include "bench/training/parameters/context.hpp"

namespace plumbline::training {

/// fc1 (T, f) → y (T, F). Overwrites y.
void activation_forward(const TrainingContext& context, const Matrix& fc1, const Matrix& y);
/// Gradient of fc1's output from that of the activation. Without a gate it overwrites `gradient`'s memory;
/// with one it is a tensor of `category`, and `gradient` is freed.
Tensor activation_backward(const TrainingContext& context, Tensor gradient, const Matrix& fc1,
                           Category category);

/// The residual's multiplier, at the input of the MLP's last product, whose result it scales; likewise its
/// gradient.
inline void multiply_residual(const TrainingContext& context, const Matrix& activation) {
  const double factor = context.model().multipliers.residual;
  if (factor != 1) context.operators.scale(activation, factor);
}

}  // namespace plumbline::training
