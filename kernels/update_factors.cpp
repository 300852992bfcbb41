#include "kernels/update_factors.hpp"

#include <cmath>

namespace plumbline {

AdamFactors adam_factors(const AdamStep& step) {
  const auto steps = static_cast<double>(step.step);
  return {
      static_cast<float>(step.beta1),
      static_cast<float>(1 - step.beta1),
      static_cast<float>(step.beta2),
      static_cast<float>(1 - step.beta2),
      static_cast<float>(step.learning_rate / (1 - std::pow(step.beta1, steps))),
      static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, steps))),
      static_cast<float>(step.epsilon),
      static_cast<float>(1 - step.learning_rate * step.weight_decay),
      static_cast<float>(step.gradient_scale),
  };
}

LionFactors lion_factors(const LionStep& step) {
  return {
      static_cast<float>(step.beta1),          static_cast<float>(1 - step.beta1),
      static_cast<float>(step.beta2),          static_cast<float>(1 - step.beta2),
      static_cast<float>(step.learning_rate),  static_cast<float>(1 - step.learning_rate * step.weight_decay),
      static_cast<float>(step.gradient_scale),
  };
}

MomentumFactors momentum_factors(const MomentumStep& step) {
  return {
      static_cast<float>(step.keep),           static_cast<float>(step.add),
      static_cast<float>(step.of_gradient),    static_cast<float>(step.of_momentum),
      static_cast<float>(step.gradient_scale),
  };
}

}  // namespace plumbline
