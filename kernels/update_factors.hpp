// Steps of the optimizers in the form that every backend's loop uses: single precision.
#pragma once

#include "kernels/operators.hpp"

namespace plumbline {

/// The bias corrections folded into the factors.
struct AdamFactors {
  float keep1, add1, keep2, add2;  // of the moments
  float step;                      // learning rate ÷ (1 - beta1^step)
  float root;                      // 1 ÷ sqrt(1 - beta2^step)
  float epsilon;
  float decay;  // 1 - learning rate · weight decay
  float gradient_scale;
};

AdamFactors adam_factors(const AdamStep& step);

struct LionFactors {
  float keep1, add1, keep2, add2;  // of the momentum in the update, and of the one that is kept
  float step;                      // learning rate
  float decay;                     // 1 - learning rate · weight decay
  float gradient_scale;
};

LionFactors lion_factors(const LionStep& step);

struct MomentumFactors {
  float keep, add, of_gradient, of_momentum, gradient_scale;
};

MomentumFactors momentum_factors(const MomentumStep& step);

}  // namespace plumbline
