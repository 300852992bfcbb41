// AdamStep in the form that every backend's loop uses.
#pragma once

#include "kernels/operators.hpp"

namespace plumbline {

/// The bias corrections folded into the factors, in single precision.
struct AdamFactors {
  float keep1, add1, keep2, add2;  // of the moments
  float step;                      // learning rate ÷ (1 - beta1^step)
  float root;                      // 1 ÷ sqrt(1 - beta2^step)
  float epsilon;
  float decay;  // 1 - learning rate · weight decay
  float gradient_scale;
};

AdamFactors adam_factors(const AdamStep& step);

}  // namespace plumbline
